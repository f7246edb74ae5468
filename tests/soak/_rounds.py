"""Rounds of killing: who it is, and when, is drawn."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Self

import orjson
from tests.soak._processes import ingest, maintain, numbers, pace_of, produce
from tests.stores import Place

from stepwell.spool import marks
from stepwell.warehouse._store.lease import FOLDER
from stepwell.warehouse._store.objects import objects_at

NAMES = ("here", "there")
_PAUSE = "pause"
ROUNDS = ("ingest", "ingest", "ingest", "produce", "maintain", _PAUSE, _PAUSE)
"""What happens in so many rounds, in an order that is drawn: who is killed, or that who has the lease is stopped for a while."""
_DEADLINE = 120.0


class Soak:
    """The processes, by name; a context that ends them."""

    def __init__(
        self, root: Path, seed: int, place: Place | None = None, *, pause: float = 0.05, longest: float = 0.6
    ) -> None:
        """`place`: of the warehouse, by default a folder below `root`.

        `pause`: seconds between a producer's batches; `longest`: up to so many before each kill.
        """
        self.root = root
        self.place = place or Place(str(root / "warehouse"))
        self.did: Counter[str] = Counter()
        """How often each thing happened."""
        self._random = random.Random(seed)
        self._longest = longest
        self._ahead: list[str] = []
        self._objects = objects_at(self.place.uri, self.place.options)
        # Children of a process that has imported everything and opened nothing: a start takes a tenth of a second.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.soak._processes", "stepwell.warehouse._ingest.process"])
        self._work: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        for name in NAMES:
            self._work[f"produce {name}"] = (produce, (self.folder(name), name, pause))
            self._work[f"ingest {name}"] = (ingest, (root / name, self.place))
        self._work["maintain"] = (maintain, (root, self.place))
        self._running: dict[str, ForkServerProcess] = {}

    def __enter__(self) -> Self:
        self.place.open()
        for name in NAMES:
            self.folder(name).mkdir(parents=True)
        for name in self._work:
            self._start(name)
        try:
            self._wait_for_a_commit()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
            process.join()

    def folder(self, name: str) -> Path:
        """The spools of a data folder."""
        return self.root / name / "spool"

    def round(self) -> None:
        """One death, or one long pause."""
        time.sleep(self._random.uniform(0.0, self._longest))
        for name, process in self._running.items():
            assert process.is_alive(), f"{name} ended by itself with {process.exitcode}; see the logs in {self.root}"
        if not self._ahead:
            self._ahead = self._random.sample(ROUNDS, len(ROUNDS))
        kind = self._ahead.pop()
        if kind == _PAUSE:
            self._pause(self._holder())
        else:
            self._kill(self._random.choice([name for name in self._work if name.startswith(kind)]))

    def finish(self) -> None:
        """Nothing new comes; wait until all that was accepted is committed, and end the rest in good order."""
        for name in NAMES:
            self._end(f"produce {name}", signal.SIGKILL)
        warehouse = self.place.open(create=False)
        accepted = {producer: mark for name in NAMES for producer, mark in marks(self.folder(name)).items()}
        assert not warehouse.wait_for(accepted, _DEADLINE), f"not everything was committed; see the logs in {self.root}"
        self._end("maintain", signal.SIGKILL)
        for name in NAMES:
            assert self._end(f"ingest {name}", signal.SIGTERM) == 0

    def accepted(self) -> dict[str, list[int]]:
        """By producer, the numbers of the steps that it was told to be kept."""
        return {name: numbers(self.folder(name), name) for name in NAMES}

    def _wait_for_a_commit(self) -> None:
        """All are at work: from now on a death comes in the middle of something."""
        warehouse, deadline = self.place.open(create=False), time.monotonic() + _DEADLINE
        while not warehouse.marks():
            assert time.monotonic() < deadline, f"nothing was committed; see the logs in {self.root}"
            time.sleep(pace_of(self.place).beat)

    def _start(self, name: str) -> None:
        target, arguments = self._work[name]
        process = self._context.Process(target=target, args=arguments, name=name)
        process.start()
        self._running[name] = process

    def _kill(self, name: str) -> None:
        self._end(name, signal.SIGKILL)
        self.did[f"killed: {name}"] += 1
        self._start(name)

    def _end(self, name: str, how: signal.Signals) -> int | None:
        process = self._running.pop(name)
        assert process.pid is not None
        os.kill(process.pid, how)
        process.join(_DEADLINE)
        return process.exitcode

    def _pause(self, name: str) -> None:
        """Stop it until another has its lease, and a little longer; then it goes on where it was."""
        pid, before = self._running[name].pid, self._lease()[0]
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            deadline = time.monotonic() + _DEADLINE
            while self._lease()[0] == before:
                assert time.monotonic() < deadline, "nobody takes the lease of one that is stopped"
                time.sleep(pace_of(self.place).patience / 20)
            time.sleep(self._random.uniform(0.0, self._longest))
        finally:
            os.kill(pid, signal.SIGCONT)
        self.did[f"paused with the lease: {name}"] += 1

    def _holder(self) -> str:
        """The ingest that has the lease, once one has."""
        deadline = time.monotonic() + _DEADLINE
        while (holder := self._writers().get(self._lease()[1])) is None:
            assert time.monotonic() < deadline, "nobody takes the lease"
            time.sleep(pace_of(self.place).beat)
        return holder

    def _writers(self) -> dict[str, str]:
        """The ingests by the names under which they hold the lease."""
        writers = {}
        for name in NAMES:
            try:
                writers[orjson.loads((self.folder(name) / "ingest.json").read_bytes())["writer"]] = f"ingest {name}"
            except (FileNotFoundError, ValueError):  # has not begun, or is being written
                continue
        return writers

    def _lease(self) -> tuple[int, str]:
        """The newest term, and who holds it."""
        terms = [key for key, _ in self._objects.listed(FOLDER) if key.rpartition("/")[2].isdigit()]
        said = self._objects.get(max(terms)) if terms else None
        return (int(max(terms).rpartition("/")[2]), orjson.loads(said)["owner"]) if said else (0, "")
