"""The reading side of a spool: never writes, never blocks the producer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from stepwell.errors import SpoolError
from stepwell.spool._damaged import is_damage, rows_around
from stepwell.spool._format import FORMAT, Record
from stepwell.spool._lock import held

_COLUMNS = "seq, id, kind, ref, at_ns, head, body"
_LARGE = 64 << 10
"""Bytes of a body that is read for itself: SQLite copies it once then, and not three times."""
_BODIES_APART = f"seq, id, kind, ref, at_ns, head, CASE WHEN length(body) < {_LARGE} THEN body END"


class SpoolReader:
    """Reads one spool, in the producer's order, while it is being written. Not shared between threads."""

    def __init__(self, path: Path) -> None:
        """Raises SpoolError when the file is no spool, is damaged, or is of a newer version."""
        self.path = path
        uri = f"{path.absolute().as_uri()}?mode=ro"
        try:
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10)
        except sqlite3.Error as error:
            raise SpoolError(f"{path} is not a readable spool: {error}") from error
        try:
            meta = dict(self._db.execute("SELECT key, value FROM meta"))
            layout, self.producer = int(meta["format"]), str(meta["producer"])
        except (sqlite3.Error, KeyError, ValueError) as error:
            self._db.close()
            raise SpoolError(f"{path} is not a readable spool: {error}") from error
        if layout > FORMAT:
            self._db.close()
            raise SpoolError(
                f"the spool {path} has layout {layout}, this version reads up to {FORMAT}: upgrade Stepwell"
            )

    def read(self, after: int, *, limit: int = 500, max_bytes: int = 32 << 20, kind: str | None = None) -> list[Record]:
        """The records numbered above `after`, oldest first: at most `limit`, and few enough to stay near `max_bytes`.

        `kind`: those of this kind only; the bodies of others are not read.
        What is on a damaged page is left out; the log says what that is.
        """
        try:
            sql = f"SELECT {_BODIES_APART} FROM entries WHERE seq > ? AND kind = coalesce(?, kind) ORDER BY seq LIMIT ?"
            with closing(self._db.execute(sql, (after, kind, limit))) as rows:
                return _first(map(self._whole, rows), limit, max_bytes)
        except sqlite3.Error as error:
            if not is_damage(error):
                raise SpoolError(f"cannot read the spool {self.path}: {error}") from error
        found: list[Record] = []
        try:
            whole = (row for row in rows_around(self._db, self.path, _COLUMNS, after) if kind in (None, row[2]))
            _first(whole, limit, max_bytes, found)
        except sqlite3.Error as error:
            if not found:
                raise SpoolError(f"cannot read the spool {self.path} above record {after}: {error}") from error
        return found

    def get(self, id: str) -> Record | None:
        """The record of that id, while the producer still keeps it and no damage has befallen it."""
        try:
            rows = self._rows(f"SELECT {_COLUMNS} FROM entries WHERE id = ?", id)
        except SpoolError as error:
            if not is_damage(error.__cause__):
                raise
            return None
        return Record(*rows[0]) if rows else None

    def last(self) -> int:
        """The highest number given so far (0: none), also when those records were dropped since."""
        return self._number("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries'")

    def lost(self) -> int:
        """How many things this producer says it could not keep."""
        return self._number("SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE key = 'lost'")

    def oldest_ns(self, after: int) -> int | None:
        """The producer's clock at the first record above `after`: how long something has waited."""
        rows = self._rows("SELECT at_ns FROM entries WHERE seq > ? ORDER BY seq LIMIT 1", after)
        return int(rows[0][0]) if rows else None

    def orphans(self) -> bool:
        """Whether an opening entry still waits for its answer."""
        return bool(self._number("SELECT EXISTS (SELECT 1 FROM entries WHERE closed IS NULL)"))

    def alive(self) -> bool:
        """Whether a process has this spool open for writing."""
        return held(self.path.with_suffix(".lock"))

    def close(self) -> None:
        self._db.close()

    def _whole(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row with its body. The statement that it came from is still open, so both are of the same moment."""
        if row[-1] is not None:
            return row
        with self._db.blobopen("entries", "body", row[0], readonly=True) as body:
            return (*row[:-1], body.read())

    def _number(self, sql: str) -> int:
        return int(self._rows(sql)[0][0])

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise SpoolError(f"cannot read the spool {self.path}: {error}") from error

    def __enter__(self) -> SpoolReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _first(
    rows: Iterable[tuple[Any, ...]], limit: int, max_bytes: int, into: list[Record] | None = None
) -> list[Record]:
    """The first ones. One row at a time: 500 bodies of 10 MB must not be in memory at once."""
    records, size = [] if into is None else into, 0
    for row in rows:
        records.append(Record(*row))
        size += len(records[-1].head) + len(records[-1].body)
        if size >= max_bytes or len(records) >= limit:
            break
    return records
