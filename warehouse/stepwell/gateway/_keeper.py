"""Between the requests and the spool: waits for the disk, and tells what is new from what was there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool import Entry, SpoolReader, SpoolWriter, marks, unreadable

__all__ = ["Keeper"]

_PATIENCE = 30.0
"""Seconds to wait for the disk before the client is told to try again."""


class Keeper:
    """Keeps entries through a `SpoolWriter`, for one event loop.

    Whether an entry is new follows from its number: a known id answers with its first number. Whatever was answered before
    a request came in lies at or below `_reached`, so a number above that is new. Of two requests that carry the same id *at the
    same time* both may be called new; it is one record in the spool all the same.
    """

    def __init__(self, writer: SpoolWriter, folder: Path) -> None:
        self.writer = writer
        self.folder = folder
        with SpoolReader(writer.spool.path) as reader:
            self._reached = reader.last()

    async def keep(self, entries: Sequence[Entry]) -> list[bool]:
        """Return when `entries` are on disk: for each, whether it is new.

        Raises:
            SpoolFull: nothing was kept; the client is to come again later.
            SpoolError: the disk failed, or does not answer (then the entries may be kept all the same, and a retry finds them).
        """
        reached = self._reached
        done = asyncio.wrap_future(self.writer.submit(*entries))
        try:
            # Shielded: a request that is cancelled must not cancel the writer's future under its hands.
            numbers = await asyncio.wait_for(asyncio.shield(done), _PATIENCE)
        except TimeoutError:
            raise SpoolError(f"the disk did not keep the submission within {_PATIENCE:.0f} s") from None
        self._reached = max(self._reached, *numbers)
        return _news(numbers, reached)

    def marks(self) -> dict[str, int]:
        """How far every producer has come by now. Blocks for the disk."""
        return marks(self.folder)

    def unreadable(self, after: Mapping[str, int]) -> dict[str, str]:
        """Of which producers nothing above such a number can be read any more, and why. Blocks for the disk."""
        return unreadable(self.folder, after)


def _news(numbers: Sequence[int], reached: int) -> list[bool]:
    """New is what lies above `reached`, and of an id given twice in one request the first."""
    news: list[bool] = []
    for number in numbers:
        news.append(number > reached)
        reached = max(reached, number)
    return news
