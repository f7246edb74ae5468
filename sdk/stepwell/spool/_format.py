"""What a spool holds, and the shape of its database."""

from __future__ import annotations

from dataclasses import dataclass

FORMAT = 1
"""Version of the database's layout, kept in `meta`. A newer one is refused, never guessed at."""

LOST = "lost"
"""Kind of the entry that closes an opening entry whose producer died before its answer was recorded."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    id     TEXT NOT NULL UNIQUE,
    kind   TEXT NOT NULL,
    ref    TEXT,
    closed INTEGER,
    at_ns  INTEGER NOT NULL,
    head   BLOB NOT NULL,
    body   BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_open ON entries (seq) WHERE closed IS NULL;
"""
# AUTOINCREMENT: a number is never used twice, also after everything was dropped.
# `closed`: 0 for an entry complete in itself; for an opening entry NULL until it is answered, then the answer's number. What lies
# below a cursor in both columns can be dropped, so a request is kept for as long as its answer is still to be read.


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing to be kept. `id` makes it idempotent; `head` is small JSON, `body` raw bytes; `ref` is the id it answers."""

    id: str
    kind: str
    head: bytes = b""
    body: bytes = b""
    ref: str | None = None
    opens: bool = False

    @property
    def size(self) -> int:
        """Bytes that count against a bound."""
        return len(self.head) + len(self.body) + 200


@dataclass(frozen=True, slots=True)
class Record:
    """An entry as read back, with the producer's running number and the producer's clock (ns since the epoch, UTC)."""

    seq: int
    id: str
    kind: str
    ref: str | None
    at_ns: int
    head: bytes
    body: bytes
