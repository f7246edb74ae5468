"""What the dashboard costs whoever looks at it, and whoever is looked at: waiting, frames, memory, and the submissions meanwhile.

    python benchmarks/dashboard.py [--json] [--steps 20000] [--seconds 30] [--only pages] [--apart]

`stepwell up` on a folder of its own, filled through its gateway, and Chromium (of STEPWELL_TEST_CHROMIUM, else the system's) on its
pages. Times are by the clock, as somebody waits who looks: run it on a quiet machine. The limits are for `--steps 1000000 --seconds 600`:
a first view under 1,000 ms, a page or filter under 500 (95 of 100), a heap under 60 MB, a step of 32,768 tokens under 2,000 ms. Frames
that came late are told beside those of the same page at rest, and submissions with two tabs beside those without. With `--apart` the
browser has a core to itself and nothing else has that one: what tabs cost then is what they ask for, not what drawing takes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))


def main() -> None:
    from benchmarks.pages import CHROMIUM, MEASURES, Run

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--steps", type=int, default=20_000, help="in the warehouse")
    parser.add_argument("--seconds", type=float, default=30, help="of the live tail, and of submissions")
    parser.add_argument(
        "--only", action="append", choices=list(MEASURES), default=[], help="may be given several times"
    )
    parser.add_argument("--apart", action="store_true", help="the browser on a core of its own")
    wanted = parser.parse_args()
    if CHROMIUM is None:  # `make bench` goes on with what can be measured
        print("no Chromium here: install it, or set STEPWELL_TEST_CHROMIUM to where one is", file=sys.stderr)
        return
    figures: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory(prefix="stepwell-bench-") as scratch,
        Run(Path(scratch), wanted.seconds, apart=wanted.apart) as run,
    ):
        run.fill(wanted.steps)
        for name in wanted.only or MEASURES:
            found = MEASURES[name](run)
            for key, value in found.items():
                print(f"{key:28}{value:12.2f}", file=sys.stderr, flush=True)
            figures |= found
    if wanted.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
