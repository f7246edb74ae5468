"""How ingest gets on: flushes from their beginning to their commit, and failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest.progress import Progress


def figures(progress: Progress, *, commits: bool = False) -> dict[str, float]:
    found = progress.figures(commits=commits)
    return {one.name.removeprefix("stepwell_ingest_"): value for one in found for _, value in one.samples}


def test_from_beginning_to_commit() -> None:
    now = [100.0]
    progress = Progress(lambda: now[0])
    assert figures(progress)["commit_lag_seconds"] == 0
    progress.begin(1, 10)
    now[0] = 101.0
    progress.begin(2, 5)
    progress.begin(1)  # written once more
    now[0] = 103.0
    said = figures(progress, commits=True)
    assert (said["commit_lag_seconds"], said["flushes_waiting"], said["records_total"]) == (3, 2, 15)
    assert said["committer"] == 1
    progress.commit([1])
    said = figures(progress)
    assert (said["commit_lag_seconds"], said["commit_seconds"], said["flushes_total"]) == (2, 3, 1)
    assert said["committer"] == 0
    progress.drop()
    progress.failures += 1
    said = figures(progress)
    assert (said["commit_lag_seconds"], said["flushes_waiting"], said["store_failures_total"]) == (0, 0, 1)


def test_an_ingest_says_what_waits(feed: Any, warehouse: Warehouse, spools: Path, drained: Any) -> None:
    feed.step(step_id="a")
    worker = Ingest(warehouse, spools)
    worker.flush()
    assert figures(worker.progress)["flushes_waiting"] == 1
    again = Ingest(warehouse, spools)  # what an earlier process left is waited for just as well
    assert figures(again.progress)["flushes_waiting"] == 1
    feed.step(step_id="b")
    drained(again)
    said = figures(again.progress)
    assert (said["flushes_waiting"], said["flushes_total"], said["records_total"]) == (0, 2, 1)


def test_what_is_planned_anew_does_not_wait_for_ever(
    feed: Any, warehouse: Warehouse, spools: Path, drained: Any
) -> None:
    feed.step(step_id="a")
    worker = Ingest(warehouse, spools)
    worker.flush()
    worker._anew("a reason")
    assert figures(worker.progress)["flushes_waiting"] == 0
    drained(worker)
    assert figures(worker.progress)["flushes_total"] == 1
