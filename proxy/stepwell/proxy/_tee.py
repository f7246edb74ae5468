"""Keeping a copy of what passes."""

from __future__ import annotations

import time

MARKS = 32
"""Pieces whose time is noted: enough for the first token to be among them, whatever pings come before it."""


class Tee:
    """Hands every piece on as it is and keeps the first `limit` bytes of them all.

    mitmproxy calls it with each piece of a body as it arrived (still encoded), and with `b""` at the end. An exception here would
    drop the piece on its way to the agent, so nothing in here can raise.
    """

    __slots__ = ("_kept", "_limit", "_room", "marks", "truncated")

    def __init__(self, limit: int) -> None:
        self._kept = bytearray()
        self._limit = self._room = limit
        self.marks: list[tuple[int, int]] = []
        """Of the first pieces: how many bytes came before, and when it came, in ns since the epoch."""
        self.truncated = False

    def __call__(self, data: bytes) -> bytes:
        if data:
            if len(self.marks) < MARKS:
                self.marks.append((self._limit - self._room, time.time_ns()))
            self._room -= len(data)
            if self._room >= 0:
                self._kept += data
            elif not self.truncated:
                self.truncated = True
                self._kept += data[: self._room]
        return data

    @property
    def first_ns(self) -> int | None:
        """When the first byte came, in ns since the epoch."""
        return self.marks[0][1] if self.marks else None

    def take(self) -> bytes:
        """What was kept; the tee lets go of it."""
        kept, self._kept = bytes(self._kept), bytearray()
        return kept
