"""What waits to be delivered: in memory, and behind that on the local disk; bounded, in order, counted."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from itertools import islice

from stepwell.errors import SpoolError
from stepwell.sdk._disk import Disk
from stepwell.sdk._item import Item, Kind

__all__ = ["Item", "Kind", "Outbox"]

_log = logging.getLogger("stepwell.sdk")

MAX_ITEMS = 50
MAX_BYTES = 1 << 20
LINGER = 0.05
"""Seconds the first record of a batch waits for company."""
_MOVED_AT_ONCE = 256
_MOVED_BYTES = 8 << 20


class Outbox:
    """A queue with one consumer. What was taken stays in the queue until it is settled, so a failed attempt loses nothing.

    What is on the disk is older than what is in memory: `spill` moves all of memory behind it.
    """

    def __init__(self, max_bytes: int, disk: Disk | None = None) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        """Of what is in memory."""
        self.put_count = 0
        self.settled = 0
        """Records acknowledged or refused; the queue is in order, so this is also how far delivery has come."""
        self.dropped = 0
        self.disk = disk
        self.disk_problem: str | None = None
        """Why nothing more can be kept on the disk."""
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._moving = threading.RLock()
        """Held while it is decided whether the head of the queue is on the disk. Never waited for by who holds `_changed`."""
        self._relieving = False
        self._hurried = 0
        self.closed = False

    def __len__(self) -> int:
        return self.spooled + len(self._items)

    @property
    def spooled(self) -> int:
        """Records on the disk."""
        return self.disk.count if self.disk is not None else 0

    def put(self, item: Item) -> bool:
        """Queue `item`; False when the bound is reached (or the box closed) and it was dropped and counted instead."""
        size = item.size
        with self._changed:
            if self.closed or self.bytes + size > self.max_bytes:
                self.dropped += 1
                return False
            self._items.append(item)
            self.bytes += size
            self.put_count += 1
            if len(self._items) == 1 or self._full():  # else the consumer is awake already, or lingering on purpose
                self._changed.notify_all()
            relieve = 2 * self.bytes > self.max_bytes and not self._relieving and self._can_spill()
            self._relieving |= relieve
        if relieve:
            self._relieve()
        return True

    def take(self, limit: int = MAX_ITEMS) -> list[Item]:
        """The next batch, all of one kind, at most `limit` records or 1 MB; waits for one. Empty once closed and drained.

        Raises SpoolError when what is on the disk cannot be read.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._items or self.spooled or self.closed)
            if not self._full() and not self.spooled:
                self._changed.wait_for(lambda: self._full() or self._hurried or self.closed, LINGER)
        with self._moving:
            if self.disk is not None and self.disk.count:
                return self.disk.take(limit)
            with self._changed:
                return self._head(limit)

    def settle(self, count: int) -> None:
        """The first `count` records are done with: acknowledged, or refused for good."""
        with self._moving:
            from_disk = min(count, self.spooled)
            if self.disk is not None and from_disk:
                self.disk.settle(from_disk)
                self.disk_problem = None  # there is room again
            with self._changed:
                self._forget(count - from_disk)
                self.settled += count
                self._changed.notify_all()

    def spill(self) -> bool:
        """Move what is in memory to the disk; whether nothing is left in memory. Never raises: `disk_problem` says why not."""
        with self._moving:
            while self.disk is not None:
                with self._changed:
                    some = self._head(_MOVED_AT_ONCE, _MOVED_BYTES, mixed=True)
                if not some:
                    self.disk_problem = None
                    return True
                try:
                    self.disk.append(some)
                except SpoolError as error:
                    if self.disk_problem is None:
                        _log.error("records can wait in memory only: %s", error)
                    self.disk_problem = str(error)
                    return False
                with self._changed:
                    self._forget(len(some))
            return not self._items

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

    def _can_spill(self) -> bool:
        return self.disk is not None and self.disk_problem is None

    def _relieve(self) -> None:
        """Have a thread of its own make room: the one that delivers may be waiting for an answer."""

        def move() -> None:
            self.spill()
            self._relieving = False

        try:
            threading.Thread(target=move, name="stepwell-sdk-spool", daemon=True).start()
        except RuntimeError:  # the interpreter is shutting down
            self._relieving = False

    def _full(self) -> bool:
        return len(self._items) >= MAX_ITEMS or self.bytes >= MAX_BYTES

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self.bytes -= self._items.popleft().size

    def _head(self, limit: int, most: int = MAX_BYTES, *, mixed: bool = False) -> list[Item]:
        batch: list[Item] = []
        size = 0
        for item in islice(self._items, limit):
            size += item.size
            if batch and ((item.kind != batch[0].kind and not mixed) or size > most):
                break
            batch.append(item)
        return batch
