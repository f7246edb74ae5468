"""The producer's side of a spool."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

from stepwell.errors import SpoolError, SpoolFull
from stepwell.spool._format import FORMAT, LOST, SCHEMA, Entry
from stepwell.spool._lock import ProcessLock

_INSERT = (
    "INSERT INTO entries (id, kind, ref, closed, at_ns, head, body) VALUES (?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO NOTHING RETURNING seq"
)


class Spool:
    """A producer's queue on local disk: one process at a time, one thread at a time.

    `append` returns when its entries survive a power cut (WAL, `synchronous=FULL`), so batches are what makes it fast.
    `max_bytes` bounds what waits to be ingested; at the bound `append` raises `SpoolFull` and keeps what it has.
    """

    def __init__(self, path: Path, *, max_bytes: int = 8 << 30, wait: float = 0.0) -> None:
        """Open or create the spool at `path`; `wait` seconds for a previous owner to end.

        Raises:
            SpoolError: another process owns it, it cannot be opened, or its layout is of a newer version.
        """
        self.path = path
        self.max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = ProcessLock(path.with_suffix(".lock"))
        if not self._lock.acquire(wait):
            raise SpoolError(f"the spool {path} is in use by another process; stop it, or use another data folder")
        try:
            self._db = self._connect()
        except (sqlite3.Error, SpoolError) as error:
            self._lock.release()
            raise (
                error if isinstance(error, SpoolError) else SpoolError(f"cannot open the spool {path}: {error}")
            ) from error
        self.bytes = self._measure()
        self._close_orphans()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=10)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.executescript(SCHEMA)
        db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
        db.execute("INSERT OR IGNORE INTO meta VALUES ('producer', ?)", (f"{self.path.stem}-{uuid.uuid4().hex[:12]}",))
        meta = dict(db.execute("SELECT key, value FROM meta"))
        if int(meta["format"]) > FORMAT:
            raise SpoolError(
                f"the spool {self.path} has layout {meta['format']}, this version reads up to {FORMAT}: upgrade Stepwell"
            )
        self.producer: str = meta["producer"]

    def _measure(self) -> int:
        (total,) = self._db.execute(
            "SELECT coalesce(sum(length(head) + length(body) + 200), 0) FROM entries"
        ).fetchone()
        return int(total)

    def _close_orphans(self) -> None:
        orphans = self._db.execute("SELECT id FROM entries WHERE closed IS NULL").fetchall()
        if orphans:
            self._insert([Entry(id=f"{id}.lost", kind=LOST, ref=id) for (id,) in orphans])

    def append(self, entries: Sequence[Entry]) -> list[int]:
        """Keep `entries` in one transaction; their running numbers, in order. A known id answers with its first number.

        Raises:
            SpoolFull: the bound is reached; nothing was kept.
            SpoolError: the disk or the database failed; nothing was kept.
        """
        size = sum(entry.size for entry in entries)
        if self.bytes + size > self.max_bytes:
            raise SpoolFull(f"the spool {self.path} holds {self.bytes} of {self.max_bytes} bytes; is ingest running?")
        try:
            return self._insert(entries)
        except sqlite3.Error as error:
            raise SpoolError(f"cannot write to the spool {self.path}: {error}") from error

    def _insert(self, entries: Iterable[Entry]) -> list[int]:
        db, numbers, added = self._db, [], 0
        db.execute("BEGIN IMMEDIATE")
        try:
            for entry in entries:
                seq, new = self._put(entry)
                numbers.append(seq)
                added += entry.size if new else 0
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self.bytes += added
        return numbers

    def _put(self, entry: Entry) -> tuple[int, bool]:
        closed = None if entry.opens else 0
        values = (entry.id, entry.kind, entry.ref, closed, time.time_ns(), entry.head, entry.body)
        row = self._db.execute(_INSERT, values).fetchone()
        if row is None:
            (seq,) = self._db.execute("SELECT seq FROM entries WHERE id = ?", (entry.id,)).fetchone()
            return int(seq), False
        if entry.ref is not None:
            self._db.execute("UPDATE entries SET closed = ? WHERE id = ? AND closed IS NULL", (row[0], entry.ref))
        return int(row[0]), True

    def trim(self, mark: int, *, limit: int = 2000) -> int:
        """Drop up to `limit` entries that nobody needs once everything up to number `mark` is in the warehouse."""
        try:
            gone = self._db.execute(
                "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries WHERE seq <= ? AND closed <= ? LIMIT ?) "
                "RETURNING length(head) + length(body) + 200",
                (mark, mark, limit),
            ).fetchall()
        except sqlite3.Error as error:
            raise SpoolError(f"cannot trim the spool {self.path}: {error}") from error
        self.bytes -= sum(size for (size,) in gone)
        return len(gone)

    def add_lost(self, count: int) -> None:
        """Remember that `count` things could not be kept, where ingest and the gateway can see it."""
        try:
            self._db.execute(
                "INSERT INTO meta VALUES ('lost', ?) "
                "ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + excluded.value",
                (str(count),),
            )
        except sqlite3.Error as error:
            raise SpoolError(f"cannot write to the spool {self.path}: {error}") from error

    def close(self) -> None:
        self._db.close()
        self._lock.release()

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
