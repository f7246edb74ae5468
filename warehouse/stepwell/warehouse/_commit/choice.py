"""Which of the waiting flushes a commit may take, which wait for others, and which their writers must write again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby

from stepwell.warehouse._commit.recent import Recent
from stepwell.warehouse._restore.read import matching
from stepwell.warehouse._store.flush import Flush, held
from stepwell.warehouse._tables.ledger import LedgerTable, Marks
from stepwell.warehouse._tables.schema import FACTS, FORGOTTEN, SCHEMA_VERSION
from stepwell.warehouse._tables.table import guarded

_log = logging.getLogger(__name__)

MAX_FLUSHES = 64
"""Flushes in one commit."""
OLD = 24 * 3600.0
"""Seconds after which a flush is written anew: clean-up takes fragments of a week for litter."""
LITTER = 6 * OLD
"""The same for one that some tables have: its other fragments may be gone soon, and a commit would not notice."""
_FORGOTTEN = "something was forgotten since it was written"


@dataclass(slots=True)
class Taken:
    """What becomes of the flushes that were looked at; those in no list wait."""

    next: list[Flush] = field(default_factory=list)
    """They are committed now, each writer's in order."""
    done: list[Flush] = field(default_factory=list)
    """They are committed already, or not wanted for a reason that rests on a clock: nothing but the announcement goes."""
    refused: list[Flush] = field(default_factory=list)
    """Nobody is going to commit them, so that their files go, too."""


class Choice:
    """Looks at flushes; for the holder of the lease, whose tables these are, as they are now."""

    def __init__(self, tables: Mapping[str, LedgerTable]) -> None:
        self._tables = tables
        self._recent = {spec.name: Recent() for spec in FACTS}
        self._aged: set[str] = set()
        """Flushes that were refused for their age."""

    def of(self, waiting: Iterable[Flush], marks: Marks) -> Taken:
        """Of those that wait, each writer's in order, when `marks` are committed."""
        taken, reached, ids = Taken(), dict(marks), _Ids()
        for _, group in groupby(waiting, lambda flush: flush.writer):
            own = list(group)
            for index, flush in enumerate(own):
                place = _place(flush, reached)
                if place == "next" and len(taken.next) == MAX_FLUSHES:
                    break
                if reason := self._refused(flush, place, ids):
                    _log.info("%s is to be written anew: %s", flush.key, reason)
                    # The later ones were written in the belief that this one came before them: their steps may build on its.
                    (taken.done if flush.key in self._aged else taken.refused).extend(own[index:])
                    break
                if place == "next":
                    taken.next.append(flush)
                    ids.add(flush)
                    reached |= reached_by([flush])
                    continue
                if place == "stale":
                    taken.refused.append(flush)
                if place != "done":
                    break
                taken.done.append(flush)
        return taken

    def committing(self, table: LedgerTable) -> None:
        """`table` is going to get flushes: whether somebody else had committed to it is seen by what it is now."""
        self._recent[table.spec.name].follow(table.marks(), table.dataset.version)

    def committed(self, table: LedgerTable, flushes: Iterable[Flush]) -> None:
        """`table` has got these."""
        for flush in flushes:
            ids = flush.submitted.get(table.spec.name, ())
            self._recent[table.spec.name].add(ids, flush.writer, table.dataset.version, table.marks())

    def _held(self, flush: Flush) -> list[bool | None]:
        return [held(self._tables[name].marks(), flush.ranges) for name in flush.fragments]

    def _refused(self, flush: Flush, place: str, before: _Ids) -> str | None:
        """Why it is not going to be committed, if that is so. For what waits for others it is looked at, too, since whoever forgets waits
        for what does not know of it, and its writer may be gone.
        """
        if place == "next":
            return self._aged_out(flush) or self._unfit(flush, before)
        return _FORGOTTEN if place == "early" and self._is_outdated(flush) else None

    def _aged_out(self, flush: Flush) -> str | None:
        """By two machines' clocks, so only once: what is written anew and seems old again is not."""
        age = LITTER if any(self._held(flush)) else OLD
        if abs(datetime.now(UTC).timestamp() - flush.at) <= age:
            return None
        if flush.key in self._aged:
            _log.warning(
                "%s seems over a day old, again: the clock of its writer, or the one here, is wrong", flush.key
            )
            return None
        self._aged.add(flush.key)
        return "it is over a day old"

    def _unfit(self, flush: Flush, before: _Ids) -> str | None:
        """Why its writer must write it again: the same records, and rows that fit."""
        has = self._held(flush)
        if None in has:
            return "some of its records are in a table already"  # which another flush of theirs has brought
        if any(has):
            return None  # some tables have it: it can only go on
        if flush.schema != SCHEMA_VERSION:
            return f"it is of schema {flush.schema}"
        if self._is_outdated(flush):
            return _FORGOTTEN
        twice = self._submitted_twice(flush, before)
        return f"{len(twice)} of its ids were submitted elsewhere meanwhile" if twice else None

    def _is_outdated(self, flush: Flush) -> bool:
        """Whether something was forgotten that its writer did not know of; one that is in a table can only go on."""
        knows = flush.checked.get(FORGOTTEN.name, 0) >= self._tables[FORGOTTEN.name].number()
        return not knows and all(has is False for has in self._held(flush))

    def _submitted_twice(self, flush: Flush, before: _Ids) -> set[str]:
        """Ids that came into the tables, or into this commit, after the writer looked."""
        found = before.also_in(flush)
        for name, ids in flush.submitted.items():
            table, since = self._tables[name], flush.checked.get(name, 0)
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


def fairly(keys: Sequence[str]) -> list[str]:
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


def reached_by(flushes: Iterable[Flush]) -> Marks:
    """The marks after these flushes, each writer's in order."""
    return {producer: upto for flush in flushes for producer, (_, upto) in flush.ranges.items()}
