"""Maintenance beside the commits, in a thread with tables of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from stepwell.warehouse._commit.chore import Chore
from stepwell.warehouse._upkeep.maintain import KEPT, Maintainer
from stepwell.warehouse._warehouse import Warehouse

LOOK = 10.0
"""Seconds between looks at how many fragments there are."""
CLEAN = 600.0
"""Seconds between removals of old versions."""
SWEEP = 6 * 3600.0
"""Seconds between looks for payloads that nothing refers to, and for litter."""


class MaintainThread(Chore):
    """Maintains the warehouse."""

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str],
        held: Callable[[], bool],
        *,
        keep: timedelta = KEPT,
        keep_raw: timedelta | None = None,
        look: float = LOOK,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens nothing yet. `clock` measures the time between one thing and the next."""
        super().__init__("maintenance", held, look)
        self._uri, self._options = uri, storage_options
        self._keep, self._keep_raw, self._clock = keep, keep_raw, clock
        self._cleaned = self._swept = -SWEEP
        self._maintainer: Maintainer | None = None

    def turn(self) -> None:
        """One look at everything, and the work that it shows.

        Raises:
            StoreError: the warehouse cannot be opened.
        """
        if self._maintainer is None:
            warehouse = Warehouse.open(self._uri, storage_options=self._options)
            self._maintainer = Maintainer(
                self._uri,
                warehouse.tables,
                self._options,
                keep=self._keep,
                keep_raw=self._keep_raw,
                stop=self._ended,
            )
        said = self._maintainer.nothing()
        now = self._clock()
        if now - self._swept >= SWEEP:
            self._swept = now
            self._maintainer.sweep(said)
            self._maintainer.tidy(said)
        clean = now - self._cleaned >= CLEAN
        if clean:
            self._cleaned = now
        self._maintainer.tend(said, clean=clean)

    def _ended(self) -> bool:
        return self._stop.is_set() or not self._held()
