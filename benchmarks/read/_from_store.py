"""From a warehouse on disk to finished batches, and how long the plan takes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.read._stored import stored
from benchmarks.read._workloads import PACKED, A

from stepwell.reader import BatchReader
from stepwell.warehouse import Warehouse

_EPOCHS = 4


def from_store(folder: Path) -> dict[str, Any]:
    """Millions of tokens, as they would be unmerged, per second of processor time, all threads together; the best of some epochs.

    The plan is of 5,120 steps, with the queries that it needs: of a warehouse whose summaries are kept, as an ingest process does, and
    under `plan_s_of_facts` of one where nobody did.
    """
    (folder / "spool").mkdir(parents=True)
    warehouse = stored(A, folder)
    some = ", ".join(f"'g{group}'" for group in range(PACKED.groups))
    plans = {}
    for kept in (False, True):
        if kept:
            warehouse.summarise()
        plans[kept] = [_planned(warehouse, f"group_id IN ({some})") for _ in range(3)]
    reader = BatchReader(warehouse, where="true", groups_per_step=16)
    cpu, wall, tokens = [], [], 0
    for _ in range(_EPOCHS):
        begun, clock, tokens = time.process_time(), time.perf_counter(), 0
        for batch in reader:
            tokens += batch.report.tokens_naive
        cpu.append(time.process_time() - begun)
        wall.append(time.perf_counter() - clock)
    details = {
        "store_tokens": tokens,
        "store_mtok_s_wall": tokens / min(wall) / 1e6,
        "plan_s_of_facts": min(plans[False]),
    }
    return {"store_mtok_s": tokens / min(cpu) / 1e6, "plan_s": min(plans[True]), "details": details}


def _planned(warehouse: Warehouse, where: str) -> float:
    """Seconds of processor time that a reader and its plan take."""
    begun = time.process_time()
    plan = BatchReader(warehouse, where=where, groups_per_step=16).plan()
    took = time.process_time() - begun
    assert plan.selected == PACKED.steps
    return took
