"""Keeping the summaries fresh beside the commits: by whoever has the lease, in a thread with tables of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between updates; queries look up themselves what came since."""
_SHARE = 9
"""An update is followed by so many times the time that it took, so that it never has more than a tenth of a processor."""


class SummaryThread:
    """Updates until it is stopped, while `held` says that it is this process's to do."""

    def __init__(
        self, uri: str, storage_options: Mapping[str, str], held: Callable[[], bool], *, every: float = EVERY
    ) -> None:
        """Opens nothing yet."""
        self._uri, self._options, self._held, self._every = uri, storage_options, held, every
        self._stop = threading.Event()
        self._warehouse: Warehouse | None = None
        self._thread = threading.Thread(target=self._run, name="summaries", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after the update in hand."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def turn(self) -> int:
        """One update; how many trajectories it took.

        Raises:
            CommitConflict: somebody else changed the summaries; the next turn does what is left.
            StoreError: the store failed.
        """
        if self._warehouse is None:
            self._warehouse = Warehouse.open(self._uri, storage_options=self._options)
        return self._warehouse.summarise()

    def _run(self) -> None:
        pause = self._every
        while not self._stop.wait(pause):
            pause = self._every
            if not self._held():
                continue
            begun = time.monotonic()
            try:
                self.turn()
            except CommitConflict as error:
                _log.info("%s; the summaries are updated later", error)
            except StoreError as error:
                _log.warning("%s; the summaries are updated later", error)
            except Exception:  # noqa: BLE001 — the boundary of the thread: queries are right without it, and slower
                _log.exception("updating the summaries failed, and is tried again later")
            pause = max(self._every, _SHARE * (time.monotonic() - begun))
