"""What producers are told that they may drop from their spools: only what is committed and, as far as it is up to us, on a disk."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from stepwell.spool import write_cursor
from stepwell.warehouse._store.durable import Durable
from stepwell.warehouse._tables.ledger import Marks

_log = logging.getLogger(__name__)

_LONG, _SELDOM = 0.01, 20
"""Telling that takes more than so many seconds takes at most one part in so many of the time."""
_AFTER_FAILURE = 5.0


class Told:
    """Tells the producers of one folder of spools what of theirs a warehouse has."""

    def __init__(self, folder: Path, uri: str) -> None:
        self.marks: Marks = {}
        """What was told last."""
        self._folder = folder
        self._durable = Durable(uri)
        self._from = 0.0

    def tell(self, committed: Marks, *, at_once: bool = False) -> None:
        """Say it, if it is news. With many files that takes long: then it is left to a later call, unless it must be `at_once`."""
        if committed == self.marks or (time.monotonic() < self._from and not at_once):
            return
        begun = time.thread_time()
        try:
            self._durable.settle()
            write_cursor(self._folder, committed)
            self.marks = committed
        except OSError as error:  # a hint for producers: without it they keep more than they need
            _log.warning("cannot say in %s what may be dropped from the spools: %s", self._folder, error)
            self._from = time.monotonic() + _AFTER_FAILURE
        if (took := time.thread_time() - begun) > _LONG:
            self._from = time.monotonic() + took * _SELDOM
