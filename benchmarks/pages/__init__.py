"""The measures of `benchmarks/dashboard.py`: each takes a `Run` and gives figures by name."""

from benchmarks.pages._run import CHROMIUM, Run
from benchmarks.pages._tail import tail
from benchmarks.pages._waits import pages, tokens
from benchmarks.pages._ways_in import submissions

__all__ = ["CHROMIUM", "MEASURES", "Run"]

MEASURES = {"pages": pages, "tokens": tokens, "tail": tail, "submissions": submissions}
