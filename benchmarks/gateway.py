"""What the way in costs: steps per second of the gateway's processor time, a call of the SDK, importing it.

    python benchmarks/gateway.py [--json] [--rounds 3]

One gateway process, batches of 50 steps of 64 conversations of 20 turns: prompts of 416 to 8,206 ids, 160 ids and logprobs out. Rates
are per second of processor time of that process, the kernel's work for it included, so that a busy machine disturbs them little.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))


def main() -> None:
    from benchmarks.way_in import _gateway

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=3, help="how often the workload is sent in each form")
    wanted = parser.parse_args()
    figures = _gateway.measure(wanted.rounds) | _sdk()
    if wanted.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24}{value:12.1f}")
    for form in _gateway.FORMS:
        print(f"{f'cpu_us_per_step_{form}':24}{1e6 / figures[f'steps_per_cpu_s_{form}']:12.1f}")


def _sdk() -> dict[str, float]:
    from benchmarks.way_in import _sdk

    return _sdk.measure()


if __name__ == "__main__":
    main()
