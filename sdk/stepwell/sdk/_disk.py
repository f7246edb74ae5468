"""What waits on the local disk: the records of a process whose gateway is away, in order, until they are acknowledged.

One spool (`stepwell.spool`) per process, in a folder per gateway under the installation's own. Its lock dies with the process, so a later
process of the same user knows a spool that nobody will empty any more, and delivers it first. A record that was acknowledged and not
yet dropped when its process died is sent again, and the gateway knows it by its id.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from stepwell.errors import SpoolError
from stepwell.sdk._fork import ready, writing
from stepwell.sdk._item import KINDS, Item, Kind

if TYPE_CHECKING:
    from stepwell.spool import Spool

__all__ = ["MAX_DISK_BYTES", "Disk", "folder_for", "left_behind", "spools_folder"]

_log = logging.getLogger("stepwell.sdk")

MAX_DISK_BYTES = 2 << 30
_BATCH_BYTES = 1 << 20
_SUFFIXES = (".db", ".db-wal", ".db-shm")


def spools_folder() -> Path:
    """Where the processes of this user keep what waits, in a folder for each gateway."""
    from stepwell.home import home_folder

    return home_folder() / "sdk"


def folder_for(url: str) -> Path:
    """Where they keep what waits for the gateway at `url`."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "_", url.partition("://")[2])[:80]
    return spools_folder() / f"{readable}-{crc32(url.encode()):08x}"


class Disk:
    """A queue of records in one spool file, made with the first record. The file goes away when it is closed and empty.

    One thread at a time. `take` and `settle` are those of an `Outbox`.
    """

    def __init__(self, path: Path, max_bytes: int = MAX_DISK_BYTES) -> None:
        self.path = path
        self.count = 0
        self._max_bytes = max_bytes
        self._mark = 0
        """Everything up to this running number was delivered; the numbers have no gaps."""
        self._spool: Spool | None = None
        self._closed = False

    @classmethod
    def fresh(cls, folder: Path, max_bytes: int = MAX_DISK_BYTES) -> Disk:
        """One of this process, which is not on the disk before something is put there."""
        return cls(folder / f"{os.getpid()}-{os.urandom(6).hex()}.db", max_bytes)

    @property
    def bytes(self) -> int:
        return self._spool.bytes if self._spool is not None and self.count else 0

    def append(self, items: Sequence[Item]) -> None:
        """Keep `items`, all or none. Raises SpoolError: the bound is reached, or the disk cannot be written."""
        ready("stepwell.spool")
        from stepwell.spool import Entry

        entries = [(item.id.encode(), item.kind, item.whole()) for item in items]
        with writing:
            spool = self._opened()
            start = self._mark + self.count
            # An id may come twice, and the states of a trajectory share theirs: what is unique here is the place in the queue.
            spool.append([Entry(str(start + n), kind, id, body) for n, (id, kind, body) in enumerate(entries, 1)])
            self.count += len(entries)

    def take(self, limit: int) -> list[Item]:
        """The oldest records, all of one kind. Raises SpoolError when they cannot be read."""
        ready("stepwell.spool")
        from stepwell.spool import SpoolReader

        items: list[Item] = []
        size = 0
        with writing, SpoolReader(self.path) as reader:
            for record in reader.read(self._mark, limit=limit, max_bytes=_BATCH_BYTES):
                if (kind := _kind(record.kind)) is None:
                    raise SpoolError(
                        f"{self.path} holds a record of the unknown kind {record.kind!r}: upgrade Stepwell"
                    )
                size += len(record.body)
                if items and (kind != items[0].kind or size > _BATCH_BYTES):
                    break
                items.append(Item(kind, record.head.decode(), record.body))
        return items

    def settle(self, count: int) -> None:
        """The oldest `count` records are done with. That they are still in the file, should that fail, does no harm."""
        with writing:
            self._mark += count
            self.count -= count
            try:
                if self._spool is not None and not self._closed:
                    self._spool.trim(self._mark)
            except SpoolError as error:
                _log.debug("%s", error)

    def close(self) -> None:
        """Let go of the file, and remove it when nothing is left in it."""
        with writing:
            self._closed = True
            if (spool := self._spool) is None:
                return
            if self.count:
                spool.close()
                return
            spool.close()
            for suffix in (*_SUFFIXES, ".lock"):
                self.path.with_suffix(suffix).unlink(missing_ok=True)

    def adopt(self) -> bool:
        """Take over the file of a process that is gone. False: it is alive. Raises SpoolError: this is no spool that can be read."""
        ready("stepwell.spool")
        from stepwell.spool import Spool, SpoolReader, held

        with writing:
            lock = self.path.with_suffix(".lock")
            if held(lock) or not self.path.exists():
                return False
            try:
                self._spool = Spool(self.path, max_bytes=self._max_bytes)
            except SpoolError:
                if held(lock):  # another process was faster
                    return False
                raise
            with SpoolReader(self.path) as reader:
                oldest, last = reader.read(0, limit=1), reader.last()
            self._mark = oldest[0].seq - 1 if oldest else last
            self.count = last - self._mark
        return True

    def _opened(self) -> Spool:
        if self._closed:
            raise SpoolError(f"the offline spool {self.path} is closed")
        if self._spool is None:
            from stepwell.spool import Spool

            try:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise SpoolError(f"cannot make the folder of the offline spool: {error}") from error
            self._spool = Spool(self.path, max_bytes=self._max_bytes)
        return self._spool


def _kind(name: str) -> Kind | None:
    return next((kind for kind in KINDS if kind == name), None)


def left_behind(folder: Path, own: Path | None, passed_over: set[str]) -> Disk | None:
    """The next spool of a process that is gone, oldest first; those that cannot be read are named once, and join `passed_over`."""
    try:
        with os.scandir(folder) as found:
            files = [(file.stat().st_mtime_ns, file.path) for file in found if file.name.endswith(".db")]
    except OSError:  # no process ever kept anything there
        return None
    for _, name in sorted(files):
        path = Path(name)
        if path == own or name in passed_over:
            continue
        disk = Disk(path)
        try:
            if disk.adopt():
                return disk
        except SpoolError as error:
            passed_over.add(name)
            _log.warning("the offline spool of an earlier process stays where it is: %s", error)
    return None
