"""What programs of this user have submitted that is still on this machine's disk, for whoever has to know what is where."""

from __future__ import annotations

import logging
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.sdk._disk import spools_folder
from stepwell.spool import SpoolReader

__all__ = ["undelivered"]

_log = logging.getLogger("stepwell.sdk")


def undelivered() -> dict[Path, int]:
    """The SDK's offline spools, of the living and of those that are gone, with how many records wait in each. Changes nothing.

    One that cannot be read counts as one record: nobody knows what is in it.
    """
    found: dict[Path, int] = {}
    for path in sorted(spools_folder().glob("*/*.db")):
        try:
            with SpoolReader(path) as reader:
                oldest = reader.read(0, limit=1)
                waiting = reader.last() - oldest[0].seq + 1 if oldest else 0
        except SpoolError as error:
            if not path.exists():  # delivered just now
                continue
            _log.warning("%s", error)
            waiting = 1
        if waiting:
            found[path] = waiting
    return found
