"""Files of a local warehouse, forced to the disk before a spool drops what they hold.

An object store has acknowledged what it keeps. Lance leaves a local file to the operating system, which may keep it in memory for half a
minute: a power cut in that time must find the records still in the spool.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stepwell.warehouse._store.s3 import is_object_store

_PLACES = ("data", "_versions", "_deletions", "_transactions", "_indices/*", "_refs/*")
"""Of a table, where its commits write: an index that a version names must be as durable as the version."""
_AT_REST_NS = 60_000_000_000
"""A file that was written to so long ago is written to no more. It is not looked at again: there are tens of thousands of them."""

_State = tuple[int, int]
"""When a file was written to (ns since the epoch), and its size. Times of files are coarser than clocks."""


class Durable:
    """What was written to a warehouse since the last `settle`."""

    def __init__(self, uri: str) -> None:
        self._root = None if is_object_store(uri) else Path(uri)
        self._folders: dict[Path, _Folder] = {}

    def settle(self) -> None:
        """When this returns, all that the tables held before is on the disk.

        Raises:
            OSError: the disk does not take it.
        """
        if self._root is None:
            return
        there = [path for table in self._root.glob("*.lance") for name in _PLACES for path in _places(table, name)]
        self._folders = {path: self._folders.get(path) or _Folder(path) for path in there if path.is_dir()}
        for folder in self._folders.values():
            with suppress(FileNotFoundError):  # an index that was cleaned up just now
                folder.settle()


def _places(table: Path, name: str) -> Iterable[Path]:
    return table.glob(name) if "*" in name else (table / name,)  # to look for what has a name takes ten times as long


class _Folder:
    """A folder, and its files as they were when they were forced to the disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at_rest: set[str] = set()
        self._recent: dict[str, _State] = {}

    def settle(self) -> None:
        now, changed = time.time_ns(), False
        names = set(os.listdir(self._path))  # noqa: PTH208 — names alone: there are tens of thousands
        self._at_rest &= names
        recent = dict[str, _State]()
        for name in names - self._at_rest:
            if (state := _state(self._path / name)) is None:
                continue
            if state != self._recent.get(name):
                force(self._path / name)
                changed = True
            recent[name] = state
        if changed:
            force(self._path)
        old = {name for name, (at, _) in recent.items() if now - at > _AT_REST_NS}
        self._at_rest |= old
        self._recent = {name: recent[name] for name in recent.keys() - old}


def _state(path: Path) -> _State | None:
    with suppress(FileNotFoundError):  # cleaned up since it was listed
        said = path.stat()
        return said.st_mtime_ns, said.st_size
    return None


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
