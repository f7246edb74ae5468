"""Keeping the summaries fresh beside the commits, in a thread with tables of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stepwell.warehouse._commit.chore import Chore
from stepwell.warehouse._warehouse import Warehouse

EVERY = 2.0
"""Seconds between updates; queries look up themselves what came since."""
_SHARE = 9
"""An update is followed by so many times the time that it took, so that it never has more than a tenth of a processor."""


class SummaryThread(Chore):
    """Updates the summaries."""

    def __init__(
        self, uri: str, storage_options: Mapping[str, str], held: Callable[[], bool], *, every: float = EVERY
    ) -> None:
        """Opens nothing yet."""
        super().__init__("summaries", held, every, _SHARE)
        self._uri, self._options = uri, storage_options
        self._warehouse: Warehouse | None = None

    def turn(self) -> int:
        """One update; how many trajectories it took.

        Raises:
            CommitConflict: somebody else changed the summaries; the next turn does what is left.
            StoreError: the store failed.
        """
        if self._warehouse is None:
            self._warehouse = Warehouse.open(self._uri, storage_options=self._options)
        return self._warehouse.summarise()
