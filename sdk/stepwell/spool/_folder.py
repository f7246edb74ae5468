"""A folder of spools: one database per producer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool._damaged import is_damage
from stepwell.spool._reader import SpoolReader
from stepwell.spool._spool import Spool

_log = logging.getLogger(__name__)


def readers(folder: Path) -> Iterator[SpoolReader]:
    """A reader for every spool in `folder`, to be closed by the caller. One that cannot be read is logged and passed over."""
    for path in sorted(folder.glob("*.db")):
        try:
            yield SpoolReader(path)
        except SpoolError as error:
            _log.warning("%s", error)


def marks(folder: Path) -> dict[str, int]:
    """Each producer's highest number right now: everything accepted so far lies at or below it."""
    found: dict[str, int] = {}
    for reader in readers(folder):
        with closing(reader):
            found[reader.producer] = reader.last()
    return found


def unreadable(folder: Path, after: Mapping[str, int]) -> dict[str, str]:
    """Of these producers the ones of whose spool nothing above these numbers can be read, as it is damaged; with what is said of it."""
    found: dict[str, str] = {}
    for reader in readers(folder):
        with closing(reader):
            if reader.producer in after:
                try:
                    reader.read(after[reader.producer], limit=1)
                except SpoolError as error:
                    if is_damage(error.__cause__):
                        found[reader.producer] = str(error)
    return found


def adopt(path: Path) -> bool:
    """Close what a dead producer left open in its spool, as its next start would. False when it turns out to be alive."""
    try:
        Spool(path).close()
    except SpoolError as error:
        _log.info("not adopted: %s", error)
        return False
    return True
