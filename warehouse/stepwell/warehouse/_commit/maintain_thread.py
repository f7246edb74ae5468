"""Maintenance beside the commits: by whoever has the lease, in a thread with tables of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from stepwell.errors import StoreError
from stepwell.warehouse._upkeep.maintain import KEPT, Maintainer
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

LOOK = 10.0
"""Seconds between looks at how many fragments there are."""
CLEAN = 600.0
"""Seconds between removals of old versions."""
SWEEP = 6 * 3600.0
"""Seconds between looks for payloads that nothing refers to, and for litter."""


class MaintainThread:
    """Maintains until it is stopped, while `held` says that it is this process's to do."""

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
        self._uri, self._options = uri, storage_options
        self._held, self._keep, self._look, self._clock = held, keep, look, clock
        self._keep_raw = keep_raw
        self._stop = threading.Event()
        self._cleaned = self._swept = -SWEEP
        self._maintainer: Maintainer | None = None
        self._thread = threading.Thread(target=self._run, name="maintainer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after the piece in hand. One that takes longer is given up: it has changed nothing yet."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

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

    def _run(self) -> None:
        while not self._stop.wait(self._look):
            if not self._held():
                continue
            try:
                self.turn()
            except StoreError as error:
                _log.warning("%s; maintenance is tried again later", error)
            except Exception:  # noqa: BLE001 — the boundary of the thread: commits go on, and so is this to
                _log.exception("maintenance failed, and is tried again later")
