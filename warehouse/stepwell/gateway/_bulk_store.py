"""Judgements of many steps at once, on the disk beside the data: which steps each was about, so that it can be kept whole and undone.

What is written here comes before the events, and names them: event `<id>.<place>` is about the step at that place. So whoever comes again
after a failure goes on with the same steps, and an undoing names exactly the events that there are, whatever became of the steps since.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from stepwell.errors import SpoolError

__all__ = ["FILE", "Judgement", "Judgements"]

FILE = "bulk.db"
"""In the data folder."""
KEPT = 90 * 86_400.0
MOST_BYTES = 256 << 20
"""Of lists of steps, compressed; beyond that, and after 90 days, the oldest judgements are forgotten: their events stay."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS judgements (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, at REAL NOT NULL, said TEXT NOT NULL,
                                       count INTEGER NOT NULL, steps BLOB NOT NULL, undone REAL);
"""
_COLUMNS = "id, at, said, count, undone"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Judgement:
    """One of them. `said`: the feedback, without a target."""

    id: str
    at: float
    said: Mapping[str, Any]
    count: int
    undone: float | None
    steps: tuple[str, ...] = ()
    """Not read for lists."""


class Judgements:
    """Any thread, one at a time. Without a path they last as long as the process."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None

    def keep(self, id_: str, said: Mapping[str, Any], steps: list[str]) -> Judgement:
        """Durable when it returns; the one that is there where this id is known. Raises SpoolError when the disk fails."""
        packed = zlib.compress(json.dumps(steps).encode(), 1)

        def write(db: sqlite3.Connection) -> None:
            with db:
                row = (id_, self._clock(), json.dumps(said), len(steps), packed)
                db.execute("INSERT OR IGNORE INTO judgements (id, at, said, count, steps) VALUES (?, ?, ?, ?, ?)", row)
                self._sweep(db)

        self._tried(write)
        found = self.get(id_)
        assert found is not None
        return found

    def get(self, id_: str) -> Judgement | None:
        """With its steps. Raises SpoolError when the disk fails."""
        sql = f"SELECT {_COLUMNS}, steps FROM judgements WHERE id = ?"
        row = self._tried(lambda db: db.execute(sql, (id_,)).fetchone())
        return None if row is None else _judgement(*row)

    def newest(self, limit: int) -> list[Judgement]:
        """The newest first, without their steps. Raises SpoolError when the disk fails."""
        sql = f"SELECT {_COLUMNS} FROM judgements ORDER BY number DESC LIMIT ?"
        return [_judgement(*row) for row in self._tried(lambda db: db.execute(sql, (limit,)).fetchall())]

    def undone(self, id_: str) -> None:
        """Note that all of it is undone. Raises SpoolError when the disk fails."""

        def write(db: sqlite3.Connection) -> None:
            with db:
                db.execute("UPDATE judgements SET undone = coalesce(undone, ?) WHERE id = ?", (self._clock(), id_))

        self._tried(write)

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    def _sweep(self, db: sqlite3.Connection) -> None:
        """Whatever is too old; and of what is too much the oldest, but never the newest one."""
        db.execute("DELETE FROM judgements WHERE at < ?", (self._clock() - KEPT,))
        sizes = db.execute("SELECT number, length(steps) FROM judgements ORDER BY number DESC").fetchall()
        total = 0
        for place, (number, size) in enumerate(sizes):
            total += size
            if place and total > MOST_BYTES:
                db.execute("DELETE FROM judgements WHERE number <= ?", (number,))
                return

    def _tried(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                if self._db is None:
                    self._db = _opened(self._path)
                return work(self._db)
            except sqlite3.Error as error:
                raise SpoolError(f"the list of judgements {self._path or ''} cannot be used: {error}") from error


def _opened(path: Path | None) -> sqlite3.Connection:
    db = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=10)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _judgement(
    id_: str, at: float, said: str, count: int, undone: float | None, steps: bytes | None = None
) -> Judgement:
    names = () if steps is None else tuple(json.loads(zlib.decompress(steps)))
    return Judgement(id_, at, json.loads(said), count, undone, names)
