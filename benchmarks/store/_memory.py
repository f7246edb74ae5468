"""What ingest needs of memory, and what finding one trajectory takes, where there are very many steps."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import Any

import pyarrow as pa
from benchmarks.store._run import LONG, LONG_ID, Run

from stepwell.warehouse import Warehouse

VIEWS = ("steps", "trajectories", "groups", "events", "feedback", "datasets")
_PAGE = 50


def memory(run: Run) -> dict[str, Any]:
    """The largest resident set of the ingest process, in MB."""
    run.details["rss_steps"] = run.many.steps
    return {"rss_mb": run.many.rss / 1e6}


def trajectory(run: Run) -> dict[str, Any]:
    """One of 200 turns by its id, whole, by a reader that has the warehouse open; beside it, the first page of each view.

    With the summaries kept, as the ingest process keeps them.
    """
    Warehouse.open(run.many.uri, create=False).summarise()
    warehouse = Warehouse.open(run.many.uri, create=False)

    def whole() -> None:
        found = pa.table(warehouse.steps(f"trajectory_id = '{LONG_ID}'", columns=["step_id", "prompt_ids", "messages"]))
        assert found.num_rows == LONG.turns

    found = _milliseconds(whole)
    pages = {view: partial(warehouse.query, f"SELECT * FROM {view} LIMIT {_PAGE}") for view in VIEWS}
    run.details["first_page_ms"] = {view: _milliseconds(page) for view, page in pages.items()}
    return {"trajectory_ms": found}


def _milliseconds(call: Any) -> float:
    """The median of a few, after one that warms up."""
    took = []
    for _ in range(6):
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    return statistics.median(took[1:]) * 1e3
