"""Spools without what was forgotten: it is committed, or dropped on its way, and their files are made anew."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool import SpoolReader, ask_purge, purge_asked, purge_dead

_log = logging.getLogger(__name__)

_POLL = 0.1


def purge_spools(folder: Path, marks: Mapping[str, int], patience: float) -> list[str]:
    """Have every spool of the folder made anew; the names of those of which that is still to come after `patience` seconds.

    `marks`: by producer, up to where everything is in the warehouse. A producer that lives does it itself, once ingest has told it
    that all is committed; a call that is in flight is waited for. What is asked here is asked until it is done, also by its next start.
    """
    waiting = sorted(folder.glob("*.db"))
    for path in waiting:
        try:
            ask_purge(path)
        except SpoolError as error:
            _log.warning("%s", error)
    deadline = time.monotonic() + patience
    while True:
        waiting = [path for path in waiting if not _done(path, marks)]
        if not waiting or time.monotonic() >= deadline:
            return [path.name for path in waiting]
        time.sleep(_POLL)


def _done(path: Path, marks: Mapping[str, int]) -> bool:
    if not path.exists():  # of a dead producer, removed since
        return True
    try:
        with SpoolReader(path) as reader:
            alive, producer = reader.alive(), reader.producer
        if not alive and purge_asked(path):
            purge_dead(path, marks.get(producer, 0))
    except SpoolError as error:
        _log.warning("%s", error)
        return False
    return not purge_asked(path)
