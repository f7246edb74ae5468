"""One way to a gateway: the queue, the disk behind it, the thread that sends, and what is told of them."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stepwell.errors import SettingsError
from stepwell.sdk import _exit
from stepwell.sdk._disk import MAX_DISK_BYTES, Disk, folder_for, left_behind
from stepwell.sdk._fork import ready
from stepwell.sdk._item import Item
from stepwell.sdk._outbox import Outbox
from stepwell.sdk._post import Poster
from stepwell.sdk._reports import Flushed, Status
from stepwell.sdk._sending import Sender

if TYPE_CHECKING:
    import httpx2

__all__ = ["MAX_PENDING_BYTES", "Delivery"]

_log = logging.getLogger("stepwell.sdk")

MAX_PENDING_BYTES = 256 << 20
_GIVE_UP = 1.0
"""Seconds of trouble after which the end of a process does not wait for a gateway any longer, when the disk can keep what is left."""


class Delivery:
    """Takes items and delivers them. At the end of the process it is flushed; forked children start it afresh."""

    def __init__(
        self,
        url: str,
        token: str | None,
        transport: httpx2.BaseTransport | None = None,
        *,
        folder: Path | None = None,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        max_spooled_bytes: int = MAX_DISK_BYTES,
    ) -> None:
        self.url = url
        self._token = token
        self._transport = transport
        self._max_pending_bytes = max_pending_bytes
        self._max_spooled_bytes = max_spooled_bytes
        self._folder = folder or (folder_for(url) if transport is None else None)
        self._inherited: list[Outbox] = []
        self.forget()
        _exit.watch(self)

    def forget(self) -> None:
        """Start afresh: nothing queued, nothing counted, no thread. A forked child does; what its parent queued is the parent's."""
        folder = self._folder
        disk = Disk.fresh(folder, self._max_spooled_bytes) if folder is not None else None
        self._outbox = Outbox(self._max_pending_bytes, disk)
        self._inherited.append(self._outbox)  # SQLite's connection of the parent is not to be closed by its child
        self._unrecorded = 0
        self._closed = False

        def left(passed_over: set[str]) -> Disk | None:
            return left_behind(folder, disk.path, passed_over) if folder is not None and disk is not None else None

        self._sender = Sender(self._outbox, Poster(self.url, self._find_token, self._transport), left)

    def queue(self, item: Item) -> str:
        """Take `item` in, and return its id; what there is no room for is dropped and counted."""
        box = self._outbox
        if box.put(item):
            if not self._sender.started:
                _exit.watch_worker()
                self._sender.start()
        elif box.dropped == 1:
            why = "the client is closed" if box.closed else f"{box.bytes} bytes wait already"
            _log.error(
                "%s %s was dropped: %s; further ones are only counted: see sdk.status()", item.kind, item.id, why
            )
        return item.id

    def lost(self, why: str) -> None:
        """Count a call of a wrapped client that could not be recorded."""
        self._unrecorded += 1
        if self._unrecorded == 1:
            _log.error("a call was not recorded: %s; further ones are only counted: see sdk.status()", why)

    def renew(self, token: str | None) -> bool:
        """If the gateway has turned down the token, use this one from the next attempt on; whether that was so.

        One that is good is kept: what was submitted under it may be of another project.
        """
        denied = self._sender.counts.denied and not self._closed
        if denied:
            self._token = token
        return denied

    def flush(self, timeout: float, committed: bool) -> Flushed:
        """See `Client.flush`."""
        deadline = time.monotonic() + timeout
        left = self._settled(deadline)
        done = None
        if committed:
            done = left == 0 and self._barrier(deadline - time.monotonic())
        counts, box = self._sender.counts, self._outbox
        return Flushed(counts.acknowledged, left, counts.refused, box.dropped, min(left, box.spooled), done)

    def status(self) -> Status:
        """See `Client.status`."""
        box, counts = self._outbox, self._sender.counts
        return Status(
            self.url, len(box), box.bytes, box.spooled, box.disk.bytes if box.disk is not None else 0,
            counts.acknowledged, counts.duplicates, counts.refused, box.dropped, self._unrecorded, counts.recovered,
            counts.problem or box.disk_problem,
        )  # fmt: skip

    def close(self, timeout: float = _exit.EXIT_BOUND) -> None:
        """Deliver what is queued, for at most `timeout` seconds, and stop. What is left waits on the disk for the next process."""
        if self._closed:
            return
        self._closed = True
        box, deadline = self._outbox, time.monotonic() + timeout
        left = box.wait(min(timeout, _GIVE_UP))
        while left and time.monotonic() < deadline and (box.disk is None or self._sender.trouble < _GIVE_UP):
            left = box.wait(min(_GIVE_UP, deadline - time.monotonic()))
        self._sender.stop(max(0.1, deadline - time.monotonic()))
        box.spill()
        if box.disk is not None:
            box.disk.close()
        self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        box, why = self._outbox, self._sender.counts.problem or "no time was left"
        if box.spooled and box.disk is not None:
            _log.warning("%d records wait in %s for the next process: %s", box.spooled, box.disk.path.parent, why)
        if lost := len(box) - box.spooled:
            _log.error("%d records were not delivered: %s", lost, why)

    def _settled(self, deadline: float) -> int:
        """Wait until nothing is left, also of what earlier processes have left; how many of our own records are left."""
        if not self._sender.started and self._folder is not None and self._folder.is_dir():
            self._sender.start()
        left = self._outbox.wait(deadline - time.monotonic())
        if self._sender.started:
            self._sender.caught_up.wait(max(0.0, deadline - time.monotonic()))
        if left:  # whoever flushes wants it safe
            self._outbox.spill()
        return left

    def _barrier(self, timeout: float) -> bool:
        poster = Poster(self.url, self._find_token, self._transport)
        try:
            reason = poster.barrier(max(0.0, timeout))
        finally:
            poster.close()
        if reason is not None:
            _log.warning("not known to be in the warehouse yet: %s", reason)
        return reason is None

    def _find_token(self) -> str | None:
        ready("stepwell.home")
        from stepwell.home import read_token

        try:
            return self._token or read_token()
        except SettingsError as error:  # an unreadable file: what the user sees is the 401, which says what to do
            _log.debug("%s", error)
            return None
