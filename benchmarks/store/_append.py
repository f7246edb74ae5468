"""Whether committing stays as quick as it was when there is much already."""

from __future__ import annotations

import statistics
from datetime import timedelta
from typing import Any

from benchmarks.store._run import Run, maintain
from benchmarks.store._spools import new_spool, step_entry
from benchmarks.store._talk import Shape, talk

from stepwell.spool import write_cursor
from stepwell.warehouse import Warehouse

_EVERY = 100
"""Commits between which the warehouse is maintained: what a maintainer beside it does, here by turns."""


def append_ratio(run: Run) -> dict[str, Any]:
    """The median commit of one small step among the last hundred, as a multiple of the first hundred's."""
    folder = run.new_folder("append")
    uri = str(folder / "warehouse")
    Warehouse.open(uri)
    took: list[float] = []
    with new_spool(folder / "spool") as spool:
        worker = run.part("ingest", uri, folder / "spool")
        shape = Shape(-(-run.sizes.commits // 20), opening=40, between=20, answer=20)
        for number, turn in enumerate(talk(shape, "append"), 1):
            seq = spool.append([step_entry(turn)])[-1]
            took.append(worker.ask("go")["wall"])
            write_cursor(folder / "spool", {spool.producer: seq})
            if number % _EVERY == 0:
                maintain(uri, keep=timedelta(hours=1))  # ingest may still be at an older version
        worker.stop()
    few = max(1, min(100, len(took) // 3))
    first, last = statistics.median(took[:few]), statistics.median(took[-few:])
    run.details["append_commits"] = len(took)
    run.details["append_ms"] = [first * 1e3, last * 1e3]
    return {"append_ratio_10k": last / first}
