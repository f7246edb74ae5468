"""What waits to be delivered: bounded, in order, counted.

The offline spool will sit behind the same four calls (`put`, `take`, `settle`, `wait`); nothing else touches the queue.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Literal

__all__ = ["Item", "Kind", "Outbox"]

Kind = Literal["step", "feedback", "trajectory"]

MAX_ITEMS = 50
MAX_BYTES = 1 << 20
LINGER = 0.05
"""Seconds the first record of a batch waits for company."""


@dataclass(frozen=True, slots=True)
class Item:
    """One record, serialised."""

    kind: Kind
    id: str
    body: bytes


class Outbox:
    """A queue with one consumer. What was taken stays in the queue until it is settled, so a failed attempt loses nothing."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.put_count = 0
        self.settled = 0
        """Records acknowledged or refused; the queue is in order, so this is also how far delivery has come."""
        self.dropped = 0
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._hurried = 0
        self.closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> bool:
        """Queue `item`; False when the bound is reached (or the box closed) and it was dropped and counted instead."""
        with self._changed:
            if self.closed or self.bytes + len(item.body) > self.max_bytes:
                self.dropped += 1
                return False
            self._items.append(item)
            self.bytes += len(item.body)
            self.put_count += 1
            if len(self._items) == 1 or self._full():  # else the consumer is awake already, or lingering on purpose
                self._changed.notify_all()
        return True

    def take(self, limit: int = MAX_ITEMS) -> list[Item]:
        """The next batch, all of one kind, at most `limit` records or 1 MB; waits for one. Empty once closed and drained."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self.closed)
            if not self._full():
                self._changed.wait_for(lambda: self._full() or self._hurried or self.closed, LINGER)
            return self._head(limit)

    def settle(self, count: int) -> None:
        """The first `count` records are done with: acknowledged, or refused for good."""
        with self._changed:
            for _ in range(count):
                self.bytes -= len(self._items.popleft().body)
            self.settled += count
            self._changed.notify_all()

    def wait(self, timeout: float) -> int:
        """Wait until everything put before this call is settled; how many of those records are not, after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        with self._changed:
            mark = self.put_count
            self._hurried += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self.settled >= mark, max(0.0, deadline - time.monotonic()))
            finally:
                self._hurried -= 1
            return max(0, mark - self.settled)

    def close(self) -> None:
        """Take nothing more in; `take` empties what is left without lingering."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def _full(self) -> bool:
        return len(self._items) >= MAX_ITEMS or self.bytes >= MAX_BYTES

    def _head(self, limit: int) -> list[Item]:
        batch: list[Item] = []
        size = 0
        for item in islice(self._items, limit):
            size += len(item.body)
            if batch and (item.kind != batch[0].kind or size > MAX_BYTES):
                break
            batch.append(item)
        return batch
