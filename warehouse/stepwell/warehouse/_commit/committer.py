"""The committer: announced flushes in, one version of the warehouse out.

A commit takes whatever waits: table by table the fragments of all its flushes, then the rows of `commits`, and only with those does
anything become visible. One that dies in the middle is done again by the next committer: each table's ledger says which flushes it
already has. Whoever commits without the lease, or twice, conflicts (see `_tables/ledger`).

On an object store a commit is mostly waiting for answers. What does not need the answer before it is therefore asked at the same time:
the lease is kept while the inbox is listed, and all that a commit writes is written before the first table is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from stepwell.errors import CommitConflict
from stepwell.warehouse._commit.choice import Choice, fairly, reached_by
from stepwell.warehouse._store.flush import Flush, Inbox, held
from stepwell.warehouse._store.objects import Listed
from stepwell.warehouse._tables.ledger import LedgerTable, Marks, refresh_all
from stepwell.warehouse._tables.schema import COMMITS, FACTS, FORGOTTEN
from stepwell.warehouse._warehouse import Warehouse

_AT_ONCE = 8


class Committer:
    """Commits what an inbox holds. For the holder of the lease; one thread, which has others ask the store for it."""

    def __init__(self, warehouse: Warehouse, inbox: Inbox, hold: Callable[[], bool] = lambda: True) -> None:
        """`hold` is asked before each commit to a table: whether the lease is still ours, which it keeps by being asked."""
        self._warehouse = warehouse
        self._inbox = inbox
        self._hold = hold
        self._choice = Choice(warehouse.tables)
        self._pool = ThreadPoolExecutor(_AT_ONCE, "committer")
        self._idle: tuple[list[Listed], int] | None = None
        """What was waiting when nothing could be done about it, and what was forgotten: it is not read again until either is more."""
        self._fresh = False
        """Whether the tables are as this committer left them, as far as it knows: when they are not, its next commit conflicts."""

    def run_once(self) -> int:
        """Commit what waits, while the lease is ours; how many flushes that was.

        Raises:
            CommitConflict: somebody else commits too. Nothing is lost: the next look finds what is left.
            StoreError: the store failed, likewise.
        """
        ours = self._pool.submit(self._hold)
        waiting = self._inbox.listed()
        if not ours.result():
            self._fresh = False
            return 0
        if not waiting or self._is_idle(waiting):
            return 0
        self._idle = None
        try:
            looked = not self._fresh
            count, removed = self._round([key for key, _ in waiting])
            if not (count or removed or looked):  # somebody else may have committed what these wait for
                self._fresh = False
                count, removed = self._round([key for key, _ in waiting])
        except BaseException:
            self._fresh = False
            raise
        self._idle = None if count or removed else (waiting, self._warehouse.tables[FORGOTTEN.name].number())
        return count

    def _is_idle(self, waiting: list[Listed]) -> bool:
        """Whether nothing can be done about what waits, as before."""
        if self._idle is None or waiting != self._idle[0]:
            return False
        forgotten = self._warehouse.tables[FORGOTTEN.name]
        forgotten.refresh()
        return forgotten.number() == self._idle[1]

    def _round(self, keys: Sequence[str]) -> tuple[int, int]:
        """How many flushes it committed, and how many others it removed."""
        tables = self._warehouse.tables
        if not self._fresh:
            # Before the flushes are read: of one that was refused meanwhile, the announcement is gone then (see `_discard`).
            refresh_all(tables[spec.name] for spec in (FORGOTTEN, *FACTS, COMMITS))
        looking = self._pool.submit(tables[FORGOTTEN.name].refresh)
        self._fresh = True
        flushes = self._inbox.read(fairly(keys))
        looking.result()
        marks = self._commits.marks()
        taken = self._choice.of(flushes, marks)
        if taken.next:
            self._commit(taken.next, marks)
        self._inbox.remove(flush.key for flush in (*taken.done, *taken.refused, *taken.next))
        self._discard(taken.refused)
        return len(taken.next), len(taken.done) + len(taken.refused)

    @property
    def _commits(self) -> LedgerTable:
        return self._warehouse.tables[COMMITS.name]

    def _commit(self, flushes: list[Flush], marks: Marks) -> None:
        tables = [self._warehouse.tables[spec.name] for spec in FACTS]
        own = {table.spec.name: [flush for flush in flushes if _lacks(table, flush)] for table in tables}
        reached, number = reached_by(flushes), self._commits.number() + 1
        expected = {table.spec.name: table.dataset.version + bool(own[table.spec.name]) for table in tables}
        writing = self._pool.submit(self._commits.write, commit_rows(number, marks, reached, expected))
        prepared: list[Future[Any]] = [self._pool.submit(self._commits.prepare, reached, number)]
        prepared += [
            self._pool.submit(table.prepare, reached_by(own[table.spec.name]))
            for table in tables
            if own[table.spec.name]
        ]
        rows = writing.result()
        for one in prepared:
            one.result()
        for table in (table for table in tables if own[table.spec.name]):
            name = table.spec.name
            self._choice.committing(table)
            self._still_ours()
            table.commit([one for flush in own[name] for one in flush.fragments[name]], reached_by(own[name]))
            self._choice.committed(table, own[name])
        versions = {table.spec.name: table.dataset.version for table in tables}
        if versions != expected:  # maintenance came between
            rows = self._commits.write(commit_rows(number, marks, reached, versions))
        self._still_ours()
        self._commits.commit(rows, reached, number)

    def _discard(self, flushes: Sequence[Flush]) -> None:
        """Delete the files of these, whose announcements are gone.

        A table that gets a ledger row now takes no commit any more from who looked at it before, and might have wanted them; who looks
        later finds no announcement.
        """
        for name in sorted({name for flush in flushes for name, files in flush.fragments.items() if files}):
            table = self._warehouse.tables[name]
            table.refresh()
            unheld = [flush for flush in flushes if _lacks(table, flush, whole=False)]
            if unheld:
                self._still_ours()
                table.commit([], {})
                self._inbox.discard(name, unheld)

    def _still_ours(self) -> None:
        if not self._hold():
            raise CommitConflict("another process has the lease of the warehouse now, and goes on with the commit")


def _lacks(table: LedgerTable, flush: Flush, *, whole: bool = True) -> bool:
    """Whether the flush has something for this table that is not in it: with `whole`, nothing of its records."""
    has = held(table.marks(), flush.ranges)
    return bool(flush.fragments.get(table.spec.name)) and (not has if whole else has is not True)


def commit_rows(number: int, before: Marks, reached: Marks, versions: dict[str, int]) -> pa.Table:
    """The rows of `commits` that make records up to `reached` visible; `versions` of the tables are told for who reads them with Lance."""
    now = datetime.now(UTC)
    rows = [
        {
            "commit_id": f"{number}.{producer}",
            "commit": number,
            "after": before.get(producer, 0),
            "producer": producer,
            "sequence": mark,
            "versions": orjson.dumps(versions).decode(),
            "created_at": now,
        }
        for producer, mark in sorted(reached.items())
    ]
    return pa.Table.from_pylist(rows, schema=COMMITS.schema)
