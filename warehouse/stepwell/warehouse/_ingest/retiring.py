"""Spools of dead producers that have nothing left in them go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool import SpoolReader, retire
from stepwell.warehouse._tables.ledger import Marks

_log = logging.getLogger(__name__)

EVERY = 60.0
"""Seconds between looks."""


class Retiring:
    """Looks through a folder of spools now and then."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = folder, clock
        self._looked = -EVERY

    def look(self, durable: Marks) -> None:
        """Remove what is done with, unless that was looked for a moment ago. `durable`: by producer, what the warehouse keeps for good."""
        if self._clock() - self._looked < EVERY:
            return
        self._looked = self._clock()
        for path in sorted(self._folder.glob("*.db")):
            try:
                with SpoolReader(path) as reader:
                    producer, lost = reader.producer, reader.lost()
                if retire(path, durable.get(producer, 0)):
                    said = f", and {lost} losses were counted in it" if lost else ""
                    _log.info(
                        "the spool of %s is removed: its producer has ended, all of it is committed%s", producer, said
                    )
            except (SpoolError, OSError) as error:
                _log.warning("%s", error)
