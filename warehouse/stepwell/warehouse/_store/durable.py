"""Files of a local warehouse, forced to the disk before a spool drops what they hold.

An object store has acknowledged what it keeps. Lance leaves a local file to the operating system, which may keep it in memory for half a
minute: a power cut in that time must find the records still in the spool.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from stepwell.warehouse._store.s3 import is_object_store

_FOLDERS = ("data", "_versions", "_deletions", "_transactions", "_indices/*", "_refs/*")
"""Of a table, where its commits write: an index that a version names must be as durable as the version."""
_SLACK_NS = 2_000_000_000
"""Times of files are coarser than clocks."""


class Durable:
    """What was written to a warehouse since the last `settle`."""

    def __init__(self, uri: str) -> None:
        self._root = None if is_object_store(uri) else Path(uri)
        self._since = 0
        """The newest file that is known to be on the disk (ns since the epoch, by the file system's clock)."""

    def settle(self) -> None:
        """When this returns, all that the tables held before is on the disk.

        Raises:
            OSError: the disk does not take it.
        """
        if self._root is None:
            return
        newest = self._since
        for folder in self._folders():
            changed = False
            for path, at in _files(folder):
                if at >= self._since - _SLACK_NS:
                    force(path)
                    changed, newest = True, max(newest, at)
            if changed:
                force(folder)
        self._since = newest

    def _folders(self) -> Iterator[Path]:
        assert self._root is not None
        for table in self._root.glob("*.lance"):
            yield from (folder for name in _FOLDERS for folder in table.glob(name) if folder.is_dir())


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    with os.scandir(folder) as found:
        for entry in found:
            with suppress(FileNotFoundError):  # cleaned up since it was listed
                yield entry.path, entry.stat().st_mtime_ns


def force(path: str | Path) -> None:
    """A file, or the names in a folder, on the disk; what is not there any more need not be."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(file)
    finally:
        os.close(file)
