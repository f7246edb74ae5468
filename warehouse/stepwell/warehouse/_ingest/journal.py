"""What an ingest has set about: which records each of its flushes holds, fixed before a row of it is written.

A flush that must be written again, after a crash or because it was refused, holds the same records as before: some tables may have it
already. The file lies beside the spools, of which there is one ingest at a time.
"""

from __future__ import annotations

import logging
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from stepwell.errors import StoreError
from stepwell.warehouse._store.durable import force
from stepwell.warehouse._store.flush import Ranges

_log = logging.getLogger(__name__)

_NAME = "ingest.json"


@dataclass(frozen=True, slots=True)
class Planned:
    """A flush by its number, and the records that it holds."""

    number: int
    ranges: Ranges


class Journal:
    """The flushes of one ingest into one warehouse that are not known to be committed, oldest first."""

    def __init__(self, folder: Path, warehouse: str) -> None:
        self._path = folder / _NAME
        self._warehouse = warehouse
        self.writer = uuid.uuid4().hex
        self.outstanding: list[Planned] = []
        self._last = 0
        try:
            said = orjson.loads(self._path.read_bytes())
            if said["warehouse"] == warehouse:
                self.writer, self._last = str(said["writer"]), int(said["last"])
                self.outstanding = [_planned(**one) for one in said["outstanding"]]
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            # What was announced is committed all the same; what was not is read from the spools again.
            _log.warning("%s cannot be read, and is begun anew: %s", self._path, error)

    def plan(self, ranges: Ranges) -> Planned:
        """Fix the records of the next flush; on disk when this returns.

        Raises:
            StoreError: the disk does not take it.
        """
        planned = Planned(self._last + 1, ranges)
        self._keep([*self.outstanding, planned], planned.number)
        return planned

    def settle(self, number: int) -> None:
        """Every flush up to this one is committed."""
        self._keep([one for one in self.outstanding if one.number > number], self._last)

    def drop(self) -> None:
        """None of what is outstanding is to be committed."""
        self._keep([], self._last)

    def _keep(self, outstanding: list[Planned], last: int) -> None:
        said = {"warehouse": self._warehouse, "writer": self.writer, "last": last}
        data = orjson.dumps({**said, "outstanding": [asdict(one) for one in outstanding]})
        try:
            _write(self._path, data)
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {error}") from error
        self.outstanding, self._last = outstanding, last


def _planned(number: int, ranges: dict[str, list[int]]) -> Planned:
    return Planned(number, {producer: (after, upto) for producer, (after, upto) in ranges.items()})


def _write(path: Path, data: bytes) -> None:
    fresh = path.with_suffix(".tmp")
    try:
        _synced(fresh, data)
        fresh.replace(path)
    except OSError:
        # A full disk, which only ingest can make room on: write over the block that the file has.
        fresh.unlink(missing_ok=True)
        if not path.exists():
            raise
        _synced(path, data, "r+b")
    else:
        force(path.parent)  # its new name, too


def _synced(path: Path, data: bytes, mode: str = "wb") -> None:
    with path.open(mode) as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
