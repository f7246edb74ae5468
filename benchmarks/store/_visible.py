"""How long what a producer has flushed takes to be seen by a reader, on a store that takes its time for every request."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.store._run import Run
from benchmarks.store._spools import new_spool, step_entry
from benchmarks.store._talk import Shape, talk

from stepwell.spool import Spool
from stepwell.warehouse import Warehouse

LATENCY = 0.025
PRODUCERS = 8
_PATIENCE = 60.0
_LOOK = 0.02


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

    def end(self) -> None:
        """When everything was seen, or too much time has passed."""
        deadline = time.monotonic() + _PATIENCE
        while any(self._waiting.values()) and time.monotonic() < deadline:
            time.sleep(_LOOK)
        self._over.set()
        self.join()


def visible(run: Run) -> dict[str, Any]:
    """The 95th percentile, in seconds; and that every step is there once."""
    store = run.part("store", run.new_folder("store"), LATENCY)
    place = json.loads(store.first_line)
    Warehouse.open(place["uri"], storage_options=place["near"])
    folders = [run.new_folder(f"machine{number}") for number in range(run.machines)]
    with ExitStack() as stack:
        spools = [stack.enter_context(_spool(folders[number % len(folders)], number)) for number in range(PRODUCERS)]
        ingests = [run.part("flush", place["uri"], folder, json.dumps(place["far"])) for folder in folders]
        watch = Watch(place["uri"], place["near"])
        watch.start()
        before = store.ask("")["requests"]
        flushed = _produce(spools, watch, run.sizes.seconds)
        watch.end()
        run.details["requests_per_s"] = (store.ask("")["requests"] - before) / run.sizes.seconds
        for ingest in ingests:
            ingest.stop()
    found = Warehouse.open(place["uri"], storage_options=place["near"]).query(
        "SELECT count(*) AS n, count(DISTINCT step_id) AS ids FROM steps"
    )
    store.stop()
    assert found.to_pylist() == [{"n": flushed, "ids": flushed}], f"{found.to_pylist()} of {flushed} flushes"
    run.details["flush_to_visible_s"] = {f"p{part}": float(np.percentile(watch.took, part)) for part in (50, 95, 100)}
    run.details["flushes"] = flushed
    run.details["machines"] = run.machines
    return {"flush_to_visible_p95_s": float(np.percentile(watch.took, 95))}


def _spool(folder: Path, number: int) -> Spool:
    return new_spool(folder / "spool", f"producer{number}")


def _produce(spools: Sequence[Spool], watch: Watch, seconds: int) -> int:
    """Each producer a step a second, one after the other; how many."""
    turns = talk(Shape(len(spools), turns=seconds), "visible")
    begun = time.monotonic()
    count = 0
    for count, turn in enumerate(turns, 1):
        spool = spools[count % len(spools)]
        time.sleep(max(0.0, begun + count / len(spools) - time.monotonic()))
        watch.expect(spool.producer, spool.append([step_entry(turn)])[-1])
    return count
