"""How long what a producer has flushed takes to be seen by a reader, on a store that takes its time for every request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.store._run import Run
from benchmarks.store._spools import new_spool, step_entry
from benchmarks.store._talk import Shape, Turn, talk

from stepwell.spool import Spool
from stepwell.warehouse import Warehouse

LATENCY = 0.025
PRODUCERS = 8
_PATIENCE = 60.0
_LOOK = 0.05


class Watch(threading.Thread):
    """A reader that looks again and again, by a way to the store that is quick, and notes when it first sees what was flushed."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self._warehouse = Warehouse.open(uri, storage_options=options, create=False)
        self._waiting: dict[str, list[tuple[int, float]]] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.took: list[float] = []

    def expect(self, producer: str, number: int) -> None:
        """From now on, until it is seen."""
        with self._lock:
            self._waiting.setdefault(producer, []).append((number, time.monotonic()))

    def run(self) -> None:
        while not self._over.wait(_LOOK):
            marks, now = self._warehouse.marks(), time.monotonic()
            with self._lock:
                for producer, waiting in self._waiting.items():
                    mark = marks.get(producer, 0)
                    self.took += [now - begun for number, begun in waiting if number <= mark]
                    self._waiting[producer] = [(number, begun) for number, begun in waiting if number > mark]

    def all_seen(self) -> None:
        """Wait for everything that is expected, or until too much time has passed."""
        deadline = time.monotonic() + _PATIENCE
        while any(self._waiting.values()) and time.monotonic() < deadline:
            time.sleep(_LOOK)

    def end(self) -> None:
        """The same, and stop."""
        self.all_seen()
        self._over.set()
        self.join()


def visible(run: Run) -> dict[str, Any]:
    """The 95th percentile, in seconds, of a step a second from each producer; and that every step is there once.

    From when the step is in the spool, waiting for the next flush included; each producer's first step, when everything is opened, aside.
    """
    store = run.part("store", LATENCY)
    ports = json.loads(store.first_line)
    near, far = (_options(ports[way]) for way in ("near", "far"))
    uri = "s3://bench/warehouse"
    Warehouse.open(uri, storage_options=near)
    folders = [run.new_folder(f"machine{number}") for number in range(run.machines)]
    with ExitStack() as stack:
        spools = [stack.enter_context(_spool(folders[number % len(folders)], number)) for number in range(PRODUCERS)]
        ingests = [run.part("flush", uri, folder, json.dumps(far)) for folder in folders]
        watch = Watch(uri, near)
        watch.start()
        turns = talk(Shape(len(spools), turns=run.sizes.seconds + 1), "visible")
        _produce(spools, watch, islice(turns, len(spools)))
        watch.all_seen()
        watch.took.clear()
        store.ask("")
        flushed = _produce(spools, watch, turns)
        watch.end()
        told = store.ask("")
        for ingest in ingests:
            ingest.stop()
    found = Warehouse.open(uri, storage_options=near).query(
        "SELECT count(*) AS n, count(DISTINCT step_id) AS ids, (SELECT max(commit) FROM steps) AS commits FROM steps"
    )
    [row] = found.to_pylist()
    store.stop()
    flushed += len(spools)
    assert row["n"] == row["ids"] == flushed, f"{row} of {flushed} steps"
    run.details["flush_to_visible_s"] = _percentiles(watch.took)
    run.details["store_request_s"] = _percentiles(told["took"])
    rates = {what: round(count / run.sizes.seconds, 1) for what, count in told["asked"].items()}
    run.details["store_requests_per_s"] = dict(sorted(rates.items(), key=lambda item: -item[1]))
    run.details["visible"] = {"machines": run.machines, "steps": flushed, "commits": row["commits"]}
    return {"flush_to_visible_p95_s": float(np.percentile(watch.took, 95))}


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    return {f"p{part}": round(float(np.percentile(seconds, part)), 4) for part in (50, 95, 100)}


def _options(port: int) -> dict[str, str]:
    keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench", "aws_region": "us-east-1"}
    return {"aws_endpoint": f"http://127.0.0.1:{port}", "allow_http": "true", **keys}


def _spool(folder: Path, number: int) -> Spool:
    return new_spool(folder / "spool", f"producer{number}")


def _produce(spools: Sequence[Spool], watch: Watch, turns: Iterable[Turn]) -> int:
    """Each producer a step a second, one after the other; how many."""
    begun = time.monotonic()
    count = 0
    for count, turn in enumerate(turns, 1):
        spool = spools[count % len(spools)]
        time.sleep(max(0.0, begun + count / len(spools) - time.monotonic()))
        watch.expect(spool.producer, spool.append([step_entry(turn)])[-1])
    return count
