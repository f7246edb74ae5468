"""Entries on their way to the disk, and who wants to know how that ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepwell.errors import SpoolError
from stepwell.spool._format import Entry


class Job:
    """What is written as one unit.

    `after` is a job without which this one would be of no use: an answer whose request was refused. The callbacks run on the
    writer's thread (or where it was submitted, when it is refused at once), and are let go of when the job has ended: what they
    hold may hold the job, and such a ring would wait for the garbage collector.
    """

    __slots__ = ("_refused", "_written", "after", "entries", "failed", "size")

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        written: Callable[[list[int]], Any] | None = None,
        refused: Callable[[SpoolError], Any] | None = None,
        after: Job | None = None,
    ) -> None:
        self.entries = entries
        self.size = sum(entry.size for entry in entries)
        self.after = after
        self.failed = False
        self._written = written
        self._refused = refused

    @property
    def useless(self) -> bool:
        """What it comes after was refused, and whoever asked was told then."""
        return self.after is not None and self.after.failed

    def end(self, numbers: list[int]) -> None:
        """Its entries are durable, under these running numbers."""
        written = self._written
        self._let_go()
        if written is not None:
            written(numbers)

    def refuse(self, error: SpoolError) -> None:
        """Its entries will not be written."""
        refused = None if self.useless else self._refused
        self.failed = True
        self._let_go()
        if refused is not None:
            refused(error)

    def _let_go(self) -> None:
        self.entries, self.after, self._written, self._refused = (), None, None, None
