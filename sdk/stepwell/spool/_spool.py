"""The producer's side of a spool."""

from __future__ import annotations

import shutil
import sqlite3
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from stepwell.errors import SpoolError, SpoolFull
from stepwell.spool._damaged import is_damage, require_whole_log, set_aside
from stepwell.spool._format import FORMAT, LOST, SCHEMA, Entry
from stepwell.spool._lock import ProcessLock

_ROWS = 1000
"""Entries to a statement. Each statement gives up the interpreter's lock, and a writer that has to win it back from a busy event
loop for every entry costs a proxy a fifth of its time."""
_CLOSED = 4
"""Where `closed` stands in a row that is being made."""
_PAGE = 16 << 10
"""Bytes of a page. Bodies are chains of pages: with SQLite's own 4 KiB, two megabytes take three times as long to write, and small
calls no less. A spool that was begun with others keeps them."""
_WAL_LEFT = 64 << 20
"""Bytes that the write-ahead log keeps for reuse: one huge call must not occupy the disk for ever."""
_RESERVE = 16 << 20
"""Bytes of the disk left free. A database on a disk that is full to the last byte cannot even be trimmed: dropping needs room for its
journal. So what would use up the rest is refused while that room is still there."""
_PURGED_AT_ONCE = 256 << 20
"""Bytes that may wait in a spool that is made anew: a second or two, in which nothing is written."""
_CANNOT = (sqlite3.Error, UnicodeError, OverflowError)
"""What a write ends with: the last two are of values that SQLite cannot be given at all (half a surrogate pair, 2 GiB)."""


class Spool:
    """A producer's queue on local disk: one process at a time, one thread at a time.

    `append` returns when its entries survive a power cut (WAL, `synchronous=FULL`), so batches are what makes it fast.
    `max_bytes` bounds what waits to be ingested; at the bound `append` raises `SpoolFull` and keeps what it has.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = 8 << 30,
        wait: float = 0.0,
        reserve: int = _RESERVE,
        anew: bool = False,
    ) -> None:
        """Open or create the spool at `path`; `wait` seconds for a previous owner to end; `reserve` bytes of disk stay free.

        `anew`: one that is damaged is set aside, and a new one begun, which is another producer's.

        Raises:
            SpoolError: another process owns it, it cannot be opened, or its layout is of a newer version.
        """
        self.path = path
        self.max_bytes = max_bytes
        self.reserve = reserve
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpoolError(f"cannot make the folder of the spool {path}: {error}") from error
        self._lock = ProcessLock(path.with_suffix(".lock"))
        if not self._lock.acquire(wait):
            raise SpoolError(f"the spool {path} is in use by another process; stop it, or use another data folder")
        try:
            self._open_or_begin() if anew else self._open()
        except BaseException:
            self._lock.release()
            raise

    def _open_or_begin(self) -> None:
        try:
            self._open()
            return
        except SpoolError as error:
            if not is_damage(error.__cause__):
                raise
            reason = str(error.__cause__)
        try:
            set_aside(self.path, reason)
        except OSError as error:
            raise SpoolError(f"the damaged spool {self.path} cannot be set aside: {error}") from error
        self._open()

    def _open(self) -> None:
        try:
            self._db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, timeout=10, cached_statements=16
            )
            try:
                self._prepare(self._db)
                self.bytes, self._last = self._measure()
                self._close_orphans()
            except BaseException:
                self._db.close()
                raise
        except (sqlite3.Error, KeyError, ValueError) as error:
            raise SpoolError(f"cannot open the spool {self.path}: {error}") from error

    def _prepare(self, db: sqlite3.Connection) -> None:
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            self._refuse_newer(db)  # before anything is written to it
            require_whole_log(db, self.path)
        db.execute(f"PRAGMA page_size = {_PAGE}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {_WAL_LEFT}")
        db.executescript(SCHEMA)
        db.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (str(FORMAT),))
        db.execute("INSERT OR IGNORE INTO meta VALUES ('producer', ?)", (f"{self.path.stem}-{uuid.uuid4().hex[:12]}",))
        self.producer: str = dict(db.execute("SELECT key, value FROM meta"))["producer"]

    def _refuse_newer(self, db: sqlite3.Connection) -> None:
        layout = dict(db.execute("SELECT key, value FROM meta")).get("format", FORMAT)
        if int(layout) > FORMAT:
            raise SpoolError(
                f"the spool {self.path} has layout {layout}, this version reads up to {FORMAT}: upgrade Stepwell"
            )

    def _measure(self) -> tuple[int, int]:
        """Bytes kept, and the last number given."""
        db = self._db
        (total,) = db.execute("SELECT coalesce(sum(length(head) + length(body) + 200), 0) FROM entries").fetchone()
        (last,) = db.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries'").fetchone()
        return int(total), int(last)

    def _close_orphans(self) -> None:
        orphans = self._db.execute("SELECT id FROM entries WHERE closed IS NULL").fetchall()
        if orphans:
            self._insert([Entry(id=f"{id}.lost", kind=LOST, ref=id) for (id,) in orphans])

    def append(self, entries: Sequence[Entry]) -> list[int]:
        """Keep `entries` in one transaction; their running numbers, in order. A known id answers with its first number.

        Raises:
            SpoolFull: the bound is reached, or what is given exceeds it by itself; nothing was kept.
            SpoolError: the disk or the database failed; nothing was kept.
        """
        if not entries:
            return []
        size = sum(entry.size for entry in entries)
        if size > self.max_bytes:
            what = "the entry itself is" if len(entries) == 1 else f"the {len(entries)} entries together are"
            raise SpoolFull(f"{what} {size} bytes, more than the spool {self.path} may hold ({self.max_bytes} bytes)")
        if self.bytes + size > self.max_bytes:
            raise SpoolFull(f"the spool {self.path} holds {self.bytes} of {self.max_bytes} bytes; is ingest running?")
        self._require_room(size)
        try:
            return self._insert(entries)
        except _CANNOT as error:
            raise SpoolError(f"cannot write to the spool {self.path}: {error}") from error

    def _require_room(self, size: int) -> None:
        """What is written is on the disk twice, in the log and in the database, before the log is used anew."""
        needed = 2 * size + self.reserve
        try:
            free = shutil.disk_usage(self.path.parent).free
            if free < needed and free + min(size, self._unused()) < needed:
                raise SpoolFull(
                    f"the disk of the spool {self.path} has {free} bytes left: free some, or let ingest catch up"
                )
        except (OSError, sqlite3.Error) as error:
            raise SpoolError(f"cannot look at the disk of the spool {self.path}: {error}") from error

    def _unused(self) -> int:
        """Bytes that the database has and does not use since something was dropped: filling them takes no more of the disk."""
        (pages,) = self._db.execute("PRAGMA freelist_count").fetchone()
        (page_size,) = self._db.execute("PRAGMA page_size").fetchone()
        return int(pages) * int(page_size)

    def _insert(self, entries: Sequence[Entry]) -> list[int]:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            numbers, last, added = self._put(entries)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self._last, self.bytes = last, self.bytes + added
        return numbers

    def _put(self, entries: Sequence[Entry]) -> tuple[list[int], int, int]:
        """Their numbers, the last number given, and the bytes added.

        Known ids are looked up first: `ON CONFLICT DO NOTHING` uses up a number for each, and a highest number that no record has
        is never committed. The numbers are ours to give, since nobody else writes here.
        """
        known, last, now = self._known(entries), self._last, time.time_ns()
        batch = {entry.id for entry in entries}
        rows: list[list[object]] = []
        unanswered: dict[str, list[object]] = {}  # rows of `rows`
        answers: dict[str, int] = {}
        added = 0
        for entry in entries:
            if entry.id in known:
                continue
            last += 1
            known[entry.id] = last
            row: list[object] = [last, entry.id, entry.kind, entry.ref, 0, now, entry.head, entry.body]
            rows.append(row)
            added += entry.size
            if entry.opens:
                row[_CLOSED] = None
                unanswered[entry.id] = row
            if entry.ref is None:
                continue
            if entry.ref in unanswered:
                unanswered.pop(entry.ref)[_CLOSED] = last
            elif entry.ref in known or entry.ref not in batch:  # what comes later is not answered yet
                answers.setdefault(entry.ref, last)
        self._many("INSERT INTO entries (seq, id, kind, ref, closed, at_ns, head, body) VALUES {}", rows)
        self._many(
            "UPDATE entries SET closed = answer.column2 FROM (VALUES {}) AS answer "
            "WHERE entries.id = answer.column1 AND closed IS NULL",
            list(answers.items()),
        )
        return [known[entry.id] for entry in entries], last, added

    def _known(self, entries: Sequence[Entry]) -> dict[str, int]:
        """The numbers of those that are here already, by id."""
        found = self._many("SELECT id, seq FROM entries WHERE id IN (VALUES {})", [(entry.id,) for entry in entries])
        return {str(id): int(seq) for id, seq in found}

    def _many(self, sql: str, rows: Sequence[Sequence[object]]) -> list[tuple[Any, ...]]:
        """`sql` with all `rows` as its VALUES, in as few statements as the number of variables allows."""
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            marks = f"({', '.join('?' * len(some[0]))})"
            found += self._db.execute(
                sql.format(", ".join([marks] * len(some))), [v for row in some for v in row]
            ).fetchall()
        return found

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

    def purge(self, mark: int) -> bool:
        """Make the file anew, without a byte of what was dropped from it, once nothing up to number `mark` is left in it.

        False: something is, or much is waiting behind it; ask again later. A deleted row stays in a database's free pages otherwise.

        Raises:
            SpoolError: the disk or the database failed; everything is as it was.
        """
        try:
            if (
                self.bytes > _PURGED_AT_ONCE
                or self._db.execute("SELECT 1 FROM entries WHERE seq <= ?", (mark,)).fetchone()
            ):
                return False
            self._db.execute("VACUUM")
            (busy, *_) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise SpoolError(f"cannot make the spool {self.path} anew: {error}") from error
        return not busy

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
