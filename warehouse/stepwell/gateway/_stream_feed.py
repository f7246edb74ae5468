"""What came after a position: steps and events in the order in which they were committed.

A position is the key of the last row that was seen. Commits are atomic and their numbers grow, so nothing ever comes before a position
that was reached: whoever goes on from one misses nothing and sees nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from stepwell.gateway._cursor import Key, key_of, opaque
from stepwell.gateway._problems import Problem
from stepwell.gateway._read_rows import page_sql, with_json
from stepwell.gateway._read_steps import STEP, STEP_KEY
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["Feed", "Item", "Position"]

_MANY = 500
"""Rows that are read at once, of steps and of events."""
_AGE = 0.5
"""Seconds for which the number of the newest commit is taken as it is, however many clients there are."""
_LOOKS = 4
"""Looks whose answers are kept, for other clients at the same place."""
_EVENT_KEY = ("commit", "producer", "sequence", "event_id")
_STEP_RANK, _EVENT_RANK = 0, 1
"""Of what one record brought, the step comes before the events about it."""


class Position(NamedTuple):
    """A row's place, or the place before all rows of a commit."""

    commit: int
    producer: str = ""
    sequence: int = 0
    rank: int = _STEP_RANK
    id: str = ""

    def cursor(self) -> str:
        """As clients hold it."""
        return opaque(self)

    @classmethod
    def of(cls, cursor: str) -> Position:
        """Raises Problem (422) for what this gateway did not hand out."""
        return cls(*key_of(cursor, (int, str, int, int, str)))  # type: ignore[arg-type]

    def steps_after(self) -> Key:
        """What steps must come behind."""
        key: Key = [self.commit, self.producer, self.sequence]
        return [*key, self.id] if self.rank == _STEP_RANK else key

    def events_after(self) -> Key:
        """What events must come behind."""
        return [self.commit, self.producer, self.sequence, self.id if self.rank == _EVENT_RANK else ""]


class Item(NamedTuple):
    """A row, and the position behind it."""

    position: Position
    kind: str
    row: dict[str, Any]


Found = tuple[list[Item], Position]
"""Rows, and where to go on."""


class _Look:
    """A look behind one position: the first who asks looks, and others wait for that one only."""

    def __init__(self, work: Callable[[], Found]) -> None:
        self._work, self._lock = work, threading.Lock()
        self._found: Found | None = None

    def found(self) -> Found:
        """Raises what the look raises; then the next who asks looks again."""
        with self._lock:
            if self._found is None:
                self._found = self._work()
            return self._found


class Feed:
    """For all clients of a gateway. Every call may block: call it in a thread."""

    def __init__(self, warehouse: LazyWarehouse, clock: Callable[[], float] = time.monotonic) -> None:
        self._warehouse, self._clock = warehouse, clock
        self._lock = threading.Lock()
        self._known, self._until = 0, float("-inf")
        self._looks: dict[tuple[Position, int], _Look] = {}

    def opened(self, cursor: str | None, since_commit: int | None) -> Position:
        """Where to begin: behind a cursor, behind a commit, or by default behind the newest commit.

        Raises:
            Problem: 422, the cursor or the commit is not of this warehouse.
            StoreError: the warehouse cannot be opened or read.
        """
        position = None if cursor is None else Position.of(cursor)
        with self._lock:
            self._until = float("-inf")  # what is committed by now is not new to this client
            newest = self._newest()
        if position is None:
            position = Position((newest if since_commit is None else since_commit) + 1)
        if position.commit > newest + 1:
            name = "cursor" if cursor is not None else "since_commit"
            raise Problem(422, f"{name}: is beyond the newest commit, {newest}; start again without one", field=name)
        return position

    def after(self, position: Position) -> Found:
        """The next rows, and where to go on: none when there are no more by now. Raises StoreError."""
        with self._lock:
            newest = self._newest()
            if position.commit > newest:
                return [], position
            look = self._looks.pop((position, newest), None) or _Look(partial(self._look, position, newest))
            self._looks[position, newest] = (
                look  # clients that keep up share it; the last one is the latest that was asked for
            )
            if len(self._looks) > _LOOKS:
                del self._looks[next(iter(self._looks))]
        return look.found()  # one that catches up takes long, and holds nobody who is somewhere else

    def _newest(self) -> int:
        if self._clock() >= self._until:
            self._known = self._warehouse.version()
            self._until = self._clock() + _AGE
        return self._known

    def _look(self, position: Position, newest: int) -> Found:
        """Each query sees what is committed when it runs: later commits than `newest` are left for the next time."""
        steps = page_sql(STEP, [], list(STEP_KEY), position.steps_after(), "oldest", _MANY - 1)
        events = page_sql("SELECT * FROM events", [], _EVENT_KEY, position.events_after(), "oldest", _MANY - 1)
        found = [
            *(_item("step", _STEP_RANK, row, "step_id") for row in self._rows(steps)),
            *(_item("event", _EVENT_RANK, with_json(row, ["payload"]), "event_id") for row in self._rows(events)),
        ]
        found.sort(key=lambda item: item.position)
        items = [item for item in found[:_MANY] if item.position.commit <= newest]
        return items, items[-1].position if len(items) == _MANY else Position(newest + 1)

    def _rows(self, sql: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._warehouse.query(sql).to_pylist(maps_as_pydicts="lossy")
        return rows


def _item(kind: str, rank: int, row: dict[str, Any], id_: str) -> Item:
    return Item(Position(row["commit"], row["producer"], row["sequence"], rank, row[id_]), kind, row)
