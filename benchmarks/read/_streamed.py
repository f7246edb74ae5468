"""Very many steps planned and streamed: what the plan and the stream take in memory, by a process that does nothing else."""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.read._stored import stored
from benchmarks.read._workloads import Workload

_AT_ONCE = 64
"""Groups that are taken in together."""
_GROUPS_PER_STEP = 16
_FIRST = 10
"""The stream's first part: one in so many optimizer steps."""


def streamed(folder: Path, steps: int) -> dict[str, Any]:
    """Megabytes resident at most: after the plan, after the first optimizer steps, after all of them."""
    shape = Workload(groups=max(_FIRST * _GROUPS_PER_STEP, steps // 160), opening=400, observation=20, answer=30)
    (folder / "spool").mkdir(parents=True)
    warehouse = stored(shape, folder, at_once=_AT_ONCE)
    warehouse.summarise()
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        found: dict[str, Any] = alone.apply(_stream, (warehouse.uri,))
    assert found["details"]["stream_steps"] == shape.steps, f"{shape.steps} steps, and {found} of them were read"
    return found


def _stream(uri: str) -> dict[str, Any]:
    from stepwell.reader import BatchReader
    from stepwell.warehouse import Warehouse

    begun, cpu = time.perf_counter(), time.process_time()
    reader = BatchReader(Warehouse.open(uri, create=False), where="true", groups_per_step=_GROUPS_PER_STEP)
    plan = reader.plan()
    planned, planned_cpu = time.perf_counter() - begun, time.process_time() - cpu
    sizes, first, steps, tokens = [_peak()], len(plan.optimizer_steps) // _FIRST, 0, 0
    begun, cpu = time.perf_counter(), time.process_time()
    for number, batches in enumerate(reader, 1):
        steps, tokens = steps + batches.steps.num_rows, tokens + batches.report.tokens_naive
        if number == first:
            sizes.append(_peak())
    took, took_cpu = time.perf_counter() - begun, time.process_time() - cpu
    sizes.append(_peak())
    names = ("rss_mb_planned", "rss_mb_streamed_first", "rss_mb_streamed")
    details = {
        "stream_steps": steps, "stream_tokens": tokens, "stream_plan_s": planned, "stream_plan_cpu_s": planned_cpu,
        "stream_mtok_s_wall": tokens / took / 1e6, "stream_mtok_s": tokens / took_cpu / 1e6,
    }  # fmt: skip
    return {**dict(zip(names, sizes, strict=True)), "details": details}


def _peak() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
