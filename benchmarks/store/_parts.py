"""What runs in processes of its own: ingest, a reader, a store. Each reads a line and answers with one line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

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
    """The ingest process of a machine, flushing once a second, until SIGTERM."""
    run_ingest(
        IngestConfig(interval=1.0),
        data=Path(data),
        warehouse=uri,
        storage_options=json.loads(options),
        ready=lambda _: _say(),
    )


def _read(uri: str) -> None:
    """A line of SQL conditions: whole prompts of those steps. Imports are made before, opening the warehouse is not."""
    opening = Warehouse.open  # the package loads its parts when they are first asked for
    _say()
    for line in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        warehouse = opening(uri, create=False)
        found = pa.table(warehouse.steps(line.strip() or None, columns=["step_id", "prompt_ids"]))
        tokens = sum(len(chunk.values) for chunk in found["prompt_ids"].chunks)
        took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        _say(steps=found.num_rows, tokens=tokens, **took)


def _store(folder: str, latency: str) -> None:
    """An object store on disk, and a way to it that takes so many seconds per request. Ends with its input."""
    from tests.stores import faulty_store, local_bucket

    with ExitStack() as stack:
        near = stack.enter_context(local_bucket(Path(folder)))
        far = stack.enter_context(faulty_store(near))
        place = far.place()
        far.faults.latency = float(latency)
        _say(uri=place.uri, far=dict(place.options), near={**place.options, "aws_endpoint": near.url})
        for _ in sys.stdin:
            _say(requests=len(far.seen))
