"""The background thread that delivers an outbox: retries with back-off, counts, and says each trouble once."""

from __future__ import annotations

import logging
import random
import threading
from dataclasses import dataclass

from stepwell.sdk._outbox import MAX_ITEMS, Item, Outbox
from stepwell.sdk._post import Again, Poster, Refusal, Settled, TooMuch

__all__ = ["Counts", "Sender"]

_log = logging.getLogger("stepwell.sdk")

FIRST_PAUSE = 0.1
LAST_PAUSE = 2.0
"""Seconds: a gateway that comes back is noticed within this."""


@dataclass(slots=True)
class Counts:
    """What became of the records so far. Written by the sender's thread only."""

    acknowledged: int = 0
    duplicates: int = 0
    refused: int = 0
    problem: str | None = None
    """Why nothing gets through at the moment."""
    refusal: Refusal | None = None
    """The first record that was refused."""


class Sender:
    """Delivers `outbox` through `poster`, in order, from a daemon thread that starts with the first record."""

    def __init__(self, outbox: Outbox, poster: Poster) -> None:
        self.counts = Counts()
        self._outbox = outbox
        self._poster = poster
        self._stop = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._limit = MAX_ITEMS

    @property
    def started(self) -> bool:
        """Whether the thread was started, at some time."""
        return self._thread is not None

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
            while not self._stop.is_set() and (batch := self._outbox.take(self._limit)):
                self._deliver(batch)
        finally:
            self._poster.close()

    def _deliver(self, batch: list[Item]) -> None:
        try:
            answer = self._poster.post(batch)
        except Exception as error:  # noqa: BLE001 - the thread's boundary: a bug here must not end delivery silently
            _log.exception("delivery failed unexpectedly")
            answer = Again(f"delivery failed unexpectedly ({type(error).__name__}: {error})")
        match answer:
            case Settled():
                self._settle(answer, len(batch))
            case TooMuch(reason) if len(batch) == 1:
                self._settle(Settled(0, refused=[Refusal(batch[0].id, "", reason)]), 1)
            case TooMuch():
                self._limit = max(1, len(batch) // 2)
            case Again():
                self._pause(answer)

    def _settle(self, answer: Settled, count: int) -> None:
        counts = self.counts
        counts.acknowledged += answer.acknowledged
        counts.duplicates += answer.duplicates
        counts.refused += len(answer.refused)
        if answer.refused and counts.refusal is None:
            counts.refusal = first = answer.refused[0]
            _log.error(
                "the gateway refused %s: %s %s (further refusals are only counted: see sdk.status())",
                first.id, first.field, first.message,
            )  # fmt: skip
        if counts.problem is not None:
            counts.problem = None
            _log.info("delivery works again")
        self._failures = 0
        self._limit = min(MAX_ITEMS, self._limit * 2)
        self._outbox.settle(count)

    def _pause(self, answer: Again) -> None:
        """Exponential back-off with full jitter, but never before the time the gateway named."""
        if self.counts.problem is None:
            _log.warning("%s; records wait in memory and are sent again", answer.reason)
        self.counts.problem = answer.reason
        bound = min(LAST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 16))
        self._failures += 1
        jitter = random.uniform(bound / 10, bound)  # noqa: S311 - spreading load, not a secret
        self._stop.wait(jitter if answer.after is None else answer.after + jitter)
