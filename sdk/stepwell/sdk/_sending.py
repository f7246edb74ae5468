"""The background thread that delivers an outbox: retries with back-off, counts, and says each trouble once."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from stepwell.errors import SpoolError
from stepwell.sdk._disk import Disk
from stepwell.sdk._item import Item
from stepwell.sdk._outbox import MAX_ITEMS, Outbox
from stepwell.sdk._post import Again, Answer, Poster, Refusal, Settled, TooMuch

__all__ = ["Counts", "Sender"]

_log = logging.getLogger("stepwell.sdk")

FIRST_PAUSE = 0.1
LAST_PAUSE = 2.0
"""Seconds: a gateway that comes back is noticed within this."""
SPILL_AFTER = 2.0
"""Seconds of trouble after which records wait on the disk."""
SPILL_EVERY = 0.5
LOOK_EVERY = 30.0
"""Seconds between looks for what processes that are gone have left behind."""


class _Queue(Protocol):
    def take(self, limit: int) -> list[Item]: ...
    def settle(self, count: int) -> None: ...


@dataclass(slots=True)
class Counts:
    """What became of the records so far. Written by the sender's thread only."""

    acknowledged: int = 0
    duplicates: int = 0
    refused: int = 0
    recovered: int = 0
    """Records of processes that are gone, delivered by this one. Not among the acknowledged."""
    problem: str | None = None
    """Why nothing gets through at the moment."""
    denied: bool = False
    """That is the token's fault."""
    refusal: Refusal | None = None
    """The first record that was refused."""


class Sender:
    """Delivers `outbox` through `poster`, in order, from a daemon thread that starts with the first record.

    `left_behind` gives the next offline spool of a process that is gone, but for those at the paths it is told; these are delivered
    first: they are older.
    """

    def __init__(
        self, outbox: Outbox, poster: Poster, left_behind: Callable[[set[str]], Disk | None] = lambda _: None
    ) -> None:
        self.counts = Counts()
        self.caught_up = threading.Event()
        """Set once nothing of earlier processes is left."""
        self._outbox = outbox
        self._poster = poster
        self._left_behind = left_behind
        self._older: Disk | None = None
        self._passed_over: set[str] = set()
        self._next_look = 0.0
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._trouble_since: float | None = None
        self._limit = MAX_ITEMS

    @property
    def started(self) -> bool:
        """Whether the thread was started, at some time."""
        return self._thread is not None

    @property
    def trouble(self) -> float:
        """Seconds since which nothing gets through; 0 while all is well."""
        since = self._trouble_since
        return time.monotonic() - since if since is not None else 0.0

    def start(self) -> None:
        """Have the thread running. At interpreter shutdown no thread can start: then the records stay undelivered and counted."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="stepwell-sdk", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    self.counts.problem = f"no thread can be started: {error}"
                    return
                self._thread = thread

    def stop(self, timeout: float) -> None:
        """End the thread, whatever is left; waits at most `timeout` seconds for a request under way."""
        self._stop.set()
        self._outbox.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                queue = self._oldest()
                try:
                    batch = queue.take(self._limit)
                except SpoolError as error:
                    self._unreadable(error)
                    continue
                if batch:
                    self._deliver(queue, batch)
                elif queue is self._outbox:
                    break
                else:
                    self._done_with_older()
        finally:
            if self._older is not None:
                self._older.close()
            self._poster.close()

    def _oldest(self) -> _Queue:
        """What is to be delivered first: what earlier processes left, one after the other, then our own."""
        if self._older is None and time.monotonic() >= self._next_look:
            self._older = self._left_behind(self._passed_over)
            if self._older is None:
                self._next_look = time.monotonic() + LOOK_EVERY
                self.caught_up.set()
        return self._older if self._older is not None else self._outbox

    def _done_with_older(self) -> None:
        if self._older is not None:
            self._older.close()
        self._older = None

    def _unreadable(self, error: SpoolError) -> None:
        if self._older is None:
            self._pause(Again(f"what waits on the disk cannot be read: {error}"))
            return
        _log.warning("the offline spool of an earlier process stays where it is: %s", error)
        self._passed_over.add(str(self._older.path))
        self._done_with_older()

    def _deliver(self, queue: _Queue, batch: list[Item]) -> None:
        answer = self._posted(batch)
        match answer:
            case Settled():
                self._settle(queue, answer, len(batch))
            case TooMuch(reason) if len(batch) == 1:
                self._settle(queue, Settled(0, refused=[Refusal(batch[0].id, "", reason)]), 1)
            case TooMuch():
                self._limit = max(1, len(batch) // 2)
            case Again():
                self._pause(answer)

    def _posted(self, batch: list[Item]) -> Answer:
        try:
            return self._poster.post(batch)
        except Exception as error:  # noqa: BLE001 - the thread's boundary: a bug here must not end delivery silently
            _log.exception("delivery failed unexpectedly")
            return Again(f"delivery failed unexpectedly ({type(error).__name__}: {error})")

    def _settle(self, queue: _Queue, answer: Settled, count: int) -> None:
        counts = self.counts
        if queue is self._outbox:
            counts.acknowledged += answer.acknowledged
        else:
            counts.recovered += answer.acknowledged
        counts.duplicates += answer.duplicates
        counts.refused += len(answer.refused)
        if answer.refused and counts.refusal is None:
            counts.refusal = first = answer.refused[0]
            _log.error(
                "the gateway refused %s: %s %s (further refusals are only counted: see sdk.status())",
                first.id, first.field, first.message,
            )  # fmt: skip
        if counts.problem is not None:
            counts.problem = self._trouble_since = None
            counts.denied = False
            _log.info("delivery works again")
        self._failures = 0
        self._limit = min(MAX_ITEMS, self._limit * 2)
        queue.settle(count)

    def _pause(self, answer: Again) -> None:
        """Exponential back-off with full jitter, but never before the time the gateway named. Meanwhile the disk keeps what comes."""
        if self._trouble_since is None:
            self._trouble_since = time.monotonic()
        counts = self.counts
        if counts.problem is None or (answer.denied and not counts.denied):  # else said already
            _log.warning("%s; records wait and are sent again", answer.reason)
        counts.problem, counts.denied = answer.reason, answer.denied
        bound = min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
        self._failures += 1
        jitter = random.uniform(bound / 10, bound)  # noqa: S311 - spreading load, not a secret
        left = jitter if answer.after is None else answer.after + jitter
        while left > 0 and not self._stop.is_set():
            piece = min(left, SPILL_EVERY)
            self._stop.wait(piece)
            left -= piece
            if self.trouble >= SPILL_AFTER:
                self._outbox.spill()
