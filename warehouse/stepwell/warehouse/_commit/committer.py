"""The committer: announced flushes in, one version of the warehouse out.

A commit takes whatever waits: table by table the fragments of all its flushes, then the rows of `commits`, and only with those does
anything become visible. One that dies in the middle is done again by the next committer: each table's ledger says which flushes it
already has. Whoever commits without the lease, or twice, conflicts (see `_tables/ledger`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby

import orjson
import pyarrow as pa

from stepwell.errors import CommitConflict
from stepwell.warehouse._commit.recent import Recent
from stepwell.warehouse._restore.read import matching
from stepwell.warehouse._store.flush import Flush, Inbox, held
from stepwell.warehouse._store.objects import Listed
from stepwell.warehouse._tables.ledger import LedgerTable, Marks
from stepwell.warehouse._tables.schema import COMMITS, FACTS, FORGOTTEN, SCHEMA_VERSION
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

MAX_FLUSHES = 64
"""Flushes in one commit."""
OLD = 24 * 3600.0
"""Seconds after which a flush is written anew: clean-up takes fragments of a week for litter."""
LITTER = 6 * OLD
"""The same for one that some tables have: its other fragments may be gone soon, and a commit would not notice."""


class Committer:
    """Commits what an inbox holds. For the holder of the lease; one thread."""

    def __init__(self, warehouse: Warehouse, inbox: Inbox, hold: Callable[[], bool] = lambda: True) -> None:
        """`hold` is asked before each commit to a table: whether the lease is still ours, which it keeps by being asked."""
        self._warehouse = warehouse
        self._inbox = inbox
        self._hold = hold
        self._recent = {spec.name: Recent() for spec in FACTS}
        self._aged: set[str] = set()
        """Flushes that were refused for their age."""
        self._idle: list[Listed] | None = None
        """What was waiting when nothing could be done about it: it is not read again until something else is."""
        self._fresh = False
        """Whether the tables are as this committer left them, as far as it knows: when they are not, its next commit conflicts."""

    def run_once(self) -> int:
        """Commit what waits; how many flushes that was.

        Raises:
            CommitConflict: somebody else commits too. Nothing is lost: the next look finds what is left.
            StoreError: the store failed, likewise.
        """
        waiting = self._inbox.listed()
        if not waiting or waiting == self._idle:
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
        self._idle = None if count or removed else waiting
        return count

    def _round(self, keys: Sequence[str]) -> tuple[int, int]:
        """How many flushes it committed, and how many others it removed."""
        for spec in (FORGOTTEN,) if self._fresh else (FORGOTTEN, *FACTS, COMMITS):
            self._warehouse.tables[spec.name].refresh()
        self._fresh = True
        marks = self._commits.marks()
        taken, done = self._take(self._inbox.read(_fairly(keys)), marks)
        if taken:
            self._commit(taken, marks)
        self._inbox.remove(flush.key for flush in (*done, *taken))
        return len(taken), len(done)

    @property
    def _commits(self) -> LedgerTable:
        return self._warehouse.tables[COMMITS.name]

    def _take(self, waiting: Iterable[Flush], marks: Marks) -> tuple[list[Flush], list[Flush]]:
        """What is committed next, each writer's in order; and what is to go: committed already, or refused."""
        taken: list[Flush] = []
        gone: list[Flush] = []
        reached, ids = dict(marks), _Ids()
        for _, group in groupby(waiting, lambda flush: flush.writer):
            own = list(group)
            for index, flush in enumerate(own):
                place = _place(flush, reached)
                if place == "next" and len(taken) == MAX_FLUSHES:
                    break
                if place == "next" and self._refused(flush, ids):
                    # The later ones were written in the belief that this one came before them: their steps may build on its.
                    gone += own[index:]
                    break
                if place == "next":
                    taken.append(flush)
                    ids.add(flush)
                    reached |= _reached([flush])
                    continue
                gone += [flush] if place != "early" else []
                if place != "done":
                    break
        return taken, gone

    def _refused(self, flush: Flush, before: _Ids) -> bool:
        """Whether its writer must write it again: the same records, and rows that fit."""
        reason = None
        has = {name: held(self._warehouse.tables[name].marks(), flush.ranges) for name in flush.fragments}
        if None in has.values():
            reason = "some of its records are in a table already"  # which another flush of theirs has brought
        elif self._old(flush, LITTER if any(has.values()) else OLD):
            reason = "it is over a day old"
        elif any(has.values()):
            return False  # some tables have it: it can only go on
        elif flush.schema != SCHEMA_VERSION:
            reason = f"it is of schema {flush.schema}"
        elif flush.checked.get(FORGOTTEN.name, 0) < self._warehouse.tables[FORGOTTEN.name].number():
            reason = "something was forgotten since it was written"
        elif twice := self._submitted_twice(flush, before):
            reason = f"{len(twice)} of its ids were submitted elsewhere meanwhile"
        if reason is not None:
            _log.info("%s is to be written anew: %s", flush.key, reason)
        return reason is not None

    def _old(self, flush: Flush, age: float) -> bool:
        """By two machines' clocks, so only once: what is written anew and seems old again is not."""
        if abs(datetime.now(UTC).timestamp() - flush.at) <= age:
            return False
        if flush.key in self._aged:
            _log.warning(
                "%s seems over a day old, again: the clock of its writer, or the one here, is wrong", flush.key
            )
            return False
        self._aged.add(flush.key)
        return True

    def _submitted_twice(self, flush: Flush, before: _Ids) -> set[str]:
        """Ids that came into the tables, or into this commit, after the writer looked."""
        found = before.also_in(flush)
        for name, ids in flush.submitted.items():
            table, since = self._warehouse.tables[name], flush.checked.get(name, 0)
            if since >= table.dataset.version:
                continue
            recent = self._recent[name]
            recent.follow(table.marks(), table.dataset.version)
            if since >= recent.start:
                found |= recent.among(ids, since, flush.writer)
            else:
                columns = [table.spec.key, "producer"]
                stored = guarded(table.uri, matching, table.dataset, table.spec.key, ids, columns).to_pylist()
                found |= {row[table.spec.key] for row in stored if row["producer"] not in flush.ranges}
        return found

    def _commit(self, flushes: list[Flush], marks: Marks) -> None:
        reached = _reached(flushes)
        for spec in FACTS:
            table, recent = self._warehouse.tables[spec.name], self._recent[spec.name]
            own = [
                flush for flush in flushes if flush.fragments.get(spec.name) and not held(table.marks(), flush.ranges)
            ]
            if own:
                recent.follow(table.marks(), table.dataset.version)
                self._still_ours()
                table.commit([one for flush in own for one in flush.fragments[spec.name]], _reached(own))
                for flush in own:
                    ids = flush.submitted.get(spec.name, ())
                    recent.add(ids, flush.writer, table.dataset.version, table.marks())
        number = self._commits.number() + 1
        versions = {spec.name: self._warehouse.tables[spec.name].dataset.version for spec in FACTS}
        self._still_ours()
        self._commits.commit(commit_rows(number, marks, reached, versions), reached, number)

    def _still_ours(self) -> None:
        if not self._hold():
            raise CommitConflict("another process has the lease of the warehouse now, and goes on with the commit")


class _Ids:
    """Who submitted which ids, of the flushes of one commit."""

    def __init__(self) -> None:
        self._by: dict[tuple[str, str], str] = {}

    def add(self, flush: Flush) -> None:
        self._by.update({(name, id_): flush.writer for name, ids in flush.submitted.items() for id_ in ids})

    def also_in(self, flush: Flush) -> set[str]:
        """Those of the flush that another writer submitted, too."""
        mine = ((name, id_) for name, ids in flush.submitted.items() for id_ in ids)
        return {key[1] for key in mine if self._by.get(key, flush.writer) != flush.writer}


def _fairly(keys: Sequence[str]) -> list[str]:
    """As many as are looked at in one round, each writer's first ones first: those of one that cannot go on do not hide the others'."""
    ranked = sorted(
        (rank, key) for _, own in groupby(keys, lambda key: key.rpartition("/")[0]) for rank, key in enumerate(own)
    )
    return sorted(key for _, key in ranked[: MAX_FLUSHES * 4])


def _place(flush: Flush, marks: Marks) -> str:
    """`next`; `done` when its records are committed; `stale` when only some are; `early` when some before it are not."""
    has = held(marks, flush.ranges)
    if has:
        return "done"
    needs = {**{producer: after for producer, (after, _) in flush.ranges.items()}, **flush.needs}
    if any(marks.get(producer, 0) < mark for producer, mark in needs.items()):
        return "early"
    fits = all(marks.get(producer, 0) == after for producer, (after, _) in flush.ranges.items())
    return "next" if fits else "stale"


def _reached(flushes: Iterable[Flush]) -> Marks:
    """The marks after these flushes, each writer's in order."""
    return {producer: upto for flush in flushes for producer, (_, upto) in flush.ranges.items()}


def commit_rows(number: int, before: Marks, reached: Marks, versions: dict[str, int]) -> pa.Table:
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
