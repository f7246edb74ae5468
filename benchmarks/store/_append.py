"""Whether committing stays as quick as it was when there is much already."""

from __future__ import annotations

import statistics
import time
from datetime import timedelta
from itertools import batched
from typing import Any

from benchmarks.store._run import Run
from benchmarks.store._spools import new_spool, step_entry
from benchmarks.store._talk import Shape, talk

from stepwell.spool import write_cursor
from stepwell.warehouse import Warehouse
from stepwell.warehouse._upkeep.maintain import Maintainer

_TEND, _CLEAN, _KEPT = 10, 600, 3600
"""Commits between two looks of the maintainer, and between removals of old versions, and how many of these stay: the seconds between them
where a commit is made each second. It works beside ingest as in production, here by turns."""


def append_ratio(run: Run) -> dict[str, Any]:
    """The median commit of one small step among the last hundred, as a multiple of the first hundred's.

    By processor time, as what else the machine does changes over the time that ten thousand take; by the clock in the details.
    """
    folder = run.new_folder("append")
    uri = str(folder / "warehouse")
    tables = Warehouse.open(uri).tables
    took: list[dict[str, float]] = []
    begun: list[float] = []
    with new_spool(folder / "spool") as spool:
        worker = run.part("ingest", uri, folder / "spool")
        shape = Shape(-(-run.sizes.commits // 20), opening=40, between=20, answer=20)
        for number, turn in enumerate(talk(shape, "append"), 1):
            seq = spool.append([step_entry(turn)])[-1]
            begun.append(time.time())
            took.append(worker.ask("go"))
            write_cursor(folder / "spool", {spool.producer: seq})
            if number % _TEND == 0:
                keep = timedelta(seconds=time.time() - begun[-_KEPT:][0])
                maintainer = Maintainer(uri, tables, {}, keep=keep)
                maintainer.tend(maintainer.nothing(), clean=number % _CLEAN == 0)
        worker.stop()
    few = max(1, min(100, len(took) // 3))
    for kind in ("cpu", "wall"):
        milliseconds = [1e3 * one[kind] for one in took]
        # The first and the last ones, and what came between in ten parts.
        parts = [milliseconds[:few], *map(list, batched(milliseconds, max(1, len(took) // 10))), milliseconds[-few:]]
        run.details[f"append_ms_{kind}"] = [round(statistics.median(part), 1) for part in parts]
    run.details["append_commits"] = len(took)
    medians = run.details["append_ms_cpu"]
    return {"append_ratio_10k": medians[-1] / medians[0]}
