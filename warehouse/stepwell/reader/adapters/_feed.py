"""Optimizer steps shared out among the workers of a data loader, and where each of them is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stepwell.errors import InvalidRecord
from stepwell.reader._read.batches import TreeBatches
from stepwell.reader._read.reader import BatchReader


class Feed:
    """Of every epoch, worker w of W takes the optimizer steps w, w + W, … A loader asks its workers in turn, so the order is kept.

    Made where it is used: the reader is opened at the first step, in the worker's own process.
    """

    def __init__(self, make: Callable[[], BatchReader]) -> None:
        self._make = make
        self._reader: BatchReader | None = None
        self._state: dict[str, Any] | None = None
        self._process = 0

    def __getstate__(self) -> dict[str, Any]:
        """Without the reader: an open warehouse does not go to another process."""
        return {**self.__dict__, "_state": self.state_dict() if self._reader else self._state, "_reader": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def steps(self, worker: int = 0, workers: int = 1) -> Iterator[TreeBatches]:
        """What is left of the epoch of this worker's share."""
        if not 0 <= worker < workers:
            raise InvalidRecord("worker", f"is {worker} of {workers}")
        reader = self._open()
        state = reader.state_dict()
        epoch, number, count = int(state["epoch"]), int(state["next"]), len(reader)
        while (number := _own(number, worker, workers)) < count:
            reader.load_state_dict({**state, "epoch": epoch, "next": number})
            batches = next(iter(reader), None)
            # A step of which nothing was left is passed over by the reader; the one it found instead may be another worker's.
            number = number + 1 if batches is None or batches.epoch != epoch else batches.number + 1
            reader.load_state_dict({**state, "epoch": epoch, "next": number})
            if batches is not None and batches.epoch == epoch and batches.number % workers == worker:
                yield batches
        reader.load_state_dict({**state, "epoch": epoch + 1, "next": 0})

    def state_dict(self) -> dict[str, Any]:
        """What comes after the last step that was given. JSON."""
        return dict(self._open().state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises InvalidRecord where the state is of another selection, settings or seed."""
        self._open().load_state_dict(state)

    def set_epoch(self, epoch: int) -> None:
        """Begin that epoch, from 0."""
        self.load_state_dict({**self.state_dict(), "epoch": epoch, "next": 0})

    def state_after(self, batches: TreeBatches) -> dict[str, Any]:
        """The state in which `batches` was the last that was given, whoever gave it."""
        return {**self.state_dict(), "epoch": batches.epoch, "next": batches.number + 1}

    def _open(self) -> BatchReader:
        """The reader of this process: one that was opened before a fork is not used after it."""
        if self._reader is not None and self._process != os.getpid():
            self._state, self._reader = self._reader.state_dict(), None
        if self._reader is None:
            self._reader, self._process = self._make(), os.getpid()
            if self._state is not None:
                self._reader.load_state_dict(self._state)
        return self._reader


def _own(number: int, worker: int, workers: int) -> int:
    """The first optimizer step from `number` on that is this worker's."""
    return number + (worker - number) % workers
