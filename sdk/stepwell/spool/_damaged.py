"""Damage to a spool's files: a bad block, a foreign hand, a disk that lied.

What is on other pages stays readable. A producer that finds damage sets its spool aside, under a name by which ingest still reads it as
that of a dead producer, and begins a new one: its own numbers could go back otherwise, and be given a second time.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

_log = logging.getLogger(__name__)

_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
_HEADER, _FRAME = 32, 24
"""Bytes of the head of a write-ahead log, and of each of its frames (https://sqlite.org/fileformat2.html#the_write_ahead_log)."""


def is_damage(error: BaseException | None) -> bool:
    """Whether SQLite says that the file itself is wrong."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def rows_around(db: sqlite3.Connection, path: Path, columns: str, after: int) -> Iterator[tuple[Any, ...]]:
    """The rows of `entries` numbered above `after` that can be read, in order; `columns` begin with `seq`. The log says what is missing.

    Each by itself: SQLite's cursor loses the row before the one that it cannot read.

    Raises:
        sqlite3.Error: it failed otherwise, or there is damage and nothing behind it.
    """
    (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries'").fetchone()
    sql, damage, start, first = f"SELECT {columns} FROM entries WHERE seq >= ? ORDER BY seq LIMIT 1", None, after + 1, 0
    while start <= last:
        try:
            row = db.execute(sql, (start,)).fetchone()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            first, damage, start = first if damage else start, error, start + 1
            continue
        if row is None:
            break
        if damage is not None:
            _log.error("records %d to %d of the spool %s cannot be read: %s", first, row[0] - 1, path, damage)
        yield row
        start, damage = row[0] + 1, None
    if damage is not None:
        raise damage


def require_whole_log(db: sqlite3.Connection, path: Path) -> None:
    """Look for transactions in the write-ahead log behind a frame that SQLite did not accept: it has recovered what is before.

    To be asked before anything is written. The frames of a transaction that was under way in a crash have no end, and are no damage.

    Raises:
        sqlite3.DatabaseError: there are some, as SQLite would say it.
    """
    _, accepted, _ = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    try:
        with path.with_name(f"{path.name}-wal").open("rb") as file:
            damaged = _goes_on(file, max(accepted, 0))
    except FileNotFoundError:
        return
    if damaged:
        error = sqlite3.DatabaseError("a frame of its write-ahead log is damaged")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error


def _goes_on(log: BinaryIO, accepted: int) -> bool:
    """Whether behind so many frames there is one that ends a transaction of the same log (of an older one, the salts are others)."""
    header = log.read(_HEADER)
    if len(header) < _HEADER or header[:4] not in _MAGIC:
        return len(header) == _HEADER and any(header)
    page, salts = int.from_bytes(header[8:12], "big"), header[16:24]
    log.seek(_HEADER + accepted * (_FRAME + page))
    while len(frame := log.read(_FRAME)) == _FRAME:
        if frame[8:16] == salts and any(frame[4:8]):
            return True
        log.seek(page, 1)
    return False


def set_aside(path: Path, reason: str) -> None:
    """Give the spool at `path`, which nobody has open for writing, another name in its folder.

    Raises:
        OSError: the disk does not let us.
    """
    aside = path.with_name(f"{path.stem}.damaged-{time.time_ns():x}{path.suffix}")
    # The database first: SQLite throws a log away that has no database, and takes a database without its log as it is.
    for end in ("", "-wal"):
        old = path.with_name(f"{path.name}{end}")
        if old.exists():
            old.rename(aside.with_name(f"{aside.name}{end}"))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    _log.error(
        "the spool %s is damaged (%s): ingest takes what can be read from %s, and a new one is begun",
        path,
        reason,
        aside,
    )
