"""What the reader costs: merging and packing, from memory and from a warehouse, and what merged batches save a trainer.

    python benchmarks/reader.py [--json] [--only build] [--steps 1000000]

Rollouts are made up: ids uniform over 150,000, prompts that grow turn by turn, groups that share a system prompt and a task (see
`read._workloads`). Rates are per second of processor time, so that a busy machine disturbs them little. The speed-up is measured in the
trainer's environment (`make trainer`), and is null without it. What a stream takes in memory is to depend on its batches: beside that of
all its optimizer steps stands that of the first ones.
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


def measure(names: Sequence[str], folder: Path, steps: int) -> dict[str, Any]:
    """The figures of these measures, one after the other, and the details."""
    from benchmarks.read import MEASURES

    figures: dict[str, Any] = {}
    details: dict[str, Any] = {}
    for name in names or MEASURES:
        found = MEASURES[name](folder, steps)
        details |= found.pop("details", {})
        figures |= found
        for key, value in found.items():
            shown = "none" if value is None else f"{value:.3f}"
            print(f"{key:28}{shown:>12}", file=sys.stderr, flush=True)
    return {**figures, "details": details}


def main() -> None:
    from benchmarks.read import MEASURES

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--only", action="append", choices=list(MEASURES), default=[], help="may be given several times"
    )
    parser.add_argument("--steps", type=int, default=25_600, help="that are streamed")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stepwell-bench-") as scratch:
        figures = measure(wanted.only, Path(scratch), wanted.steps)
    if wanted.json:
        print(json.dumps(figures))
    else:
        print(json.dumps(figures["details"], indent=2))


if __name__ == "__main__":
    main()
