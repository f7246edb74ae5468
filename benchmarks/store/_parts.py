"""What runs in processes of its own: ingest, a reader, a store. Each reads a line and answers with one line of JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from benchmarks.store._bucket import Bucket

from stepwell.errors import CommitConflict
from stepwell.warehouse import Ingest, IngestConfig, Warehouse, run_ingest


def serve(name: str, *arguments: str) -> None:
    """Be the part of that name."""
    parts: Mapping[str, Callable[..., None]] = {"ingest": _ingest, "flush": _flush, "read": _read, "store": _store}
    parts[name](*arguments)


def _say(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def _ingest(uri: str, folder: str) -> None:
    """A line: take in all there is."""
    worker = Ingest(Warehouse.open(uri), Path(folder))
    _say()
    for _ in sys.stdin:
        wall, cpu, total = time.perf_counter(), time.process_time(), 0
        while count := _round(worker):
            total += count
        figures = {"records": total, "wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        _say(**figures, rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def _round(worker: Ingest) -> int:
    """A round; after a maintainer's commit in between, another one at once, as the ingest process does."""
    while True:
        try:
            return worker.run_once()
        except CommitConflict:
            continue


def _flush(uri: str, data: str, options: str) -> None:
    """The ingest process of a machine as it is by default, until SIGTERM."""
    run_ingest(
        IngestConfig(),
        data=Path(data),
        warehouse=uri,
        storage_options=json.loads(options),
        ready=lambda _: _say(),
    )


def _read(uri: str, how: str = "table") -> None:
    """A line of SQL conditions: whole prompts of those steps, kept as one table or, as a `stream`, a batch at a time.

    Imports are made before, opening the warehouse is not.
    """
    opening = Warehouse.open  # the package loads its parts when they are first asked for
    _say()
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        warehouse = opening(uri, create=False)
        batches = warehouse.steps(line.strip() or None, columns=["step_id", "prompt_ids"])
        kept, steps, tokens = list[pa.RecordBatch](), 0, 0
        for batch in batches:
            steps, tokens = steps + batch.num_rows, tokens + len(batch["prompt_ids"].values)
            kept += [batch] if how == "table" else []
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        _say(steps=steps, tokens=tokens, **took)


def _store(latency: str) -> None:
    """An object store with two ways to it, one that takes so many seconds per request. Ends with its input."""
    bucket = Bucket()

    async def serve() -> None:
        near, far = await bucket.listen(0.0), await bucket.listen(float(latency))
        _say(near=near, far=far)
        while await asyncio.to_thread(sys.stdin.readline):
            _say(took=bucket.took.pop(far, []), asked=bucket.asked.pop(far, {}))

    asyncio.run(serve())
