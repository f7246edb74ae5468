"""What was taken in the last 24 hours, on the disk beside the spool: ids, and the answers to requests with an Idempotency-Key.

The spool forgets an id when ingest has brought it into the warehouse; a client may repeat itself later than that. This is a help for
answering, never the truth about what is stored: what is written here was in the spool before, and what is lost here is recognised when
it is committed. So a disk that fails here is logged, and costs nobody a submission.

Ids are kept as hashes of 128 bits. At most `MAX_IDS` of them, and `MAX_ANSWER_BYTES` of answers: beyond that the oldest go first.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

__all__ = ["HOURS", "Answer", "Memory", "hashed"]

_log = logging.getLogger(__name__)

HOURS = 24
MAX_IDS = 20_000_000
MAX_ANSWER_BYTES = 512 << 20

_SECONDS = HOURS * 3600
_AT_ONCE = 500
_SWEPT = 5_000
"""Rows that are dropped at a time."""
_SWEEP_EVERY = 10.0
_DAMAGED = ("SQLITE_NOTADB", "SQLITE_CORRUPT")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS ids (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS answers (number INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, at REAL NOT NULL, asked BLOB NOT NULL,
                                    status INTEGER NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL);
"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request was answered with; `asked` is the hash of its body."""

    asked: bytes
    status: int
    kind: str
    body: bytes


def hashed(*parts: str | bytes) -> bytes:
    """128 bits for these parts in this order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.digest()


class Memory:
    """Any thread, one at a time. Without a path it lasts as long as the process."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._db = _opened(path)
        self._next_sweep = 0.0
        (self._bytes,) = self._db.execute("SELECT coalesce(sum(length(body)), 0) FROM answers").fetchone()

    def known(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of `keys` that were noted within 24 hours."""
        oldest = self._clock() - _SECONDS

        def look() -> set[bytes]:
            found: set[bytes] = set()
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                sql = f"SELECT key FROM ids WHERE key IN ({', '.join('?' * len(some))}) AND at >= ?"
                found.update(key for (key,) in self._db.execute(sql, (*some, oldest)))
            return found

        return self._tried(look, set())

    def note(self, keys: Iterable[bytes]) -> None:
        """Remember what is durable by now."""
        now = self._clock()

        def write() -> None:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO ids (key, at) VALUES (?, ?)", [(key, now) for key in keys])
            self._sweep(now)

        self._tried(write, None)

    def answer(self, key: bytes) -> Answer | None:
        """What the request of that key was answered with."""
        sql = "SELECT asked, status, kind, body FROM answers WHERE key = ? AND at >= ?"
        row = self._tried(lambda: self._db.execute(sql, (key, self._clock() - _SECONDS)).fetchone(), None)
        return None if row is None else Answer(row[0], row[1], row[2], zlib.decompress(row[3]))

    def keep(self, key: bytes, answer: Answer) -> None:
        """Remember an answer."""
        now, body = self._clock(), zlib.compress(answer.body, 1)

        def write() -> None:
            with self._db:
                self._db.execute(
                    "INSERT OR REPLACE INTO answers (key, at, asked, status, kind, body) VALUES (?, ?, ?, ?, ?, ?)",
                    (key, now, answer.asked, answer.status, answer.kind, body),
                )
            self._bytes += len(body)
            self._sweep(now)

        self._tried(write, None)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _tried(self, work: Callable[[], T], otherwise: T) -> T:
        with self._lock:
            try:
                return work()
            except sqlite3.Error as error:
                _log.warning("the memory of what was submitted cannot be used: %s", error)
                return otherwise

    def _sweep(self, now: float) -> None:
        """Drop a portion of what is too old or too much; numbers follow the order of time."""
        if (full := self._bytes > MAX_ANSWER_BYTES) or time.monotonic() >= self._next_sweep:
            self._next_sweep = time.monotonic() + _SWEEP_EVERY
            with self._db:
                (surplus,) = self._db.execute("SELECT coalesce(max(number) - min(number) + 1, 0) FROM ids").fetchone()
                self._drop("ids", now, surplus > MAX_IDS)
                self._bytes -= self._drop("answers", now, full)

    def _drop(self, table: str, now: float, also_young: bool) -> int:
        size = "length(body)" if table == "answers" else "0"
        gone = self._db.execute(
            f"DELETE FROM {table} WHERE number IN (SELECT number FROM {table} ORDER BY number LIMIT ?) "
            f"AND (at < ? OR ?) RETURNING {size}",
            (_SWEPT, now - _SECONDS, also_young),
        )
        return sum(count for (count,) in gone.fetchall())


def _opened(path: Path | None) -> sqlite3.Connection:
    """The database. A damaged one is made anew; where none can be made, what is remembered lasts as long as the process."""
    try:
        return _connected(path)
    except sqlite3.DatabaseError as error:
        if path is None:
            raise
        _log.warning("the memory of what was submitted, %s, cannot be used: %s", path, error)
        if error.sqlite_errorname not in _DAMAGED:
            return _connected(None)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        return _connected(path)


def _connected(path: Path | None) -> sqlite3.Connection:
    db = sqlite3.connect(path or ":memory:", check_same_thread=False, timeout=10)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last moments, and not the file
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db
