"""What the warehouse costs: bytes per step, ingest per core, memory, and how long readers wait.

    python benchmarks/warehouse.py [--json] [--only bytes_per_step] [--scale 1] [--full] [--machines 8]

Ids are uniform over 150,000, logprobs random, messages come with their text (see `store._talk`); records go into spools as the gateway
and the proxy write them, and through ingest into a warehouse. Bytes are those that `du` counts after `stepwell maintain`. Ingest's rates
are per second of processor time, so that a busy machine disturbs them little; `details` tells them by the clock, with what else was
learned. By default it takes minutes and is small; `--full` has a million steps and ten thousand commits, and takes hours.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))


def measure(names: Sequence[str], scale: float, full: bool, machines: int, folder: Path) -> dict[str, Any]:
    """The figures of these measures, one after the other, and the details."""
    from benchmarks.store import MEASURES, Run
    from benchmarks.store._run import FULL, Sizes

    figures: dict[str, Any] = {}
    with Run(folder, (FULL if full else Sizes()).scaled(scale), machines) as run:
        for name in names or MEASURES:
            figures |= MEASURES[name](run)
            print(f"{name:24}{figures[name]:14.2f}", file=sys.stderr, flush=True)
        return {**figures, "details": run.details}


def main() -> None:
    if sys.argv[1:2] == ["part"]:
        from benchmarks.store._parts import serve

        return serve(*sys.argv[2:])
    from benchmarks.store import MEASURES

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--only", action="append", choices=list(MEASURES), default=[], help="may be given several times"
    )
    parser.add_argument("--scale", type=float, default=1, help="multiplies every size")
    parser.add_argument("--full", action="store_true", help="the sizes that the limits are for")
    parser.add_argument("--machines", type=int, default=8, help="ingest processes that share a warehouse")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as scratch:
        figures = measure(wanted.only, wanted.scale, wanted.full, wanted.machines, Path(scratch))
    if wanted.json:
        print(json.dumps(figures))
    else:
        print(json.dumps(figures["details"], indent=2))
    return None


if __name__ == "__main__":
    main()
