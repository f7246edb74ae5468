"""What an author has judged under a name: what is committed, and what was accepted since and waits in the spool."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from stepwell.gateway._cursor import literal
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._warehouse import LazyWarehouse
from stepwell.sdk.records import Feedback
from stepwell.spool import SpoolReader

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Judged", "Target"]

_REMEMBERED = 16
_AT_ONCE = 500
_KINDS = ("step", "response")


@dataclass(frozen=True, slots=True)
class Target:
    """What was judged. `over`: of a preference, the step that was not chosen."""

    kind: str
    id: str
    over: str | None = None


class Judged:
    """Any thread. Every call may block."""

    def __init__(self, warehouse: LazyWarehouse, listed: Listed, keeper: Keeper) -> None:
        self._warehouse, self._listed = warehouse, listed
        self._waiting = _Waiting(keeper)
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str | None], tuple[tuple[int, int], pa.Table]] = OrderedDict()

    def by(self, name: str, author: str | None) -> tuple[pa.Table, list[Target]]:
        """Everything judged under a name by this author, or by anybody: a table (kind, id, over) of what counts at the newest commit,
        and what was accepted after it. A judgement that is taken back is one until that is committed.

        Raises:
            StoreError: the warehouse cannot be opened or read.
            SpoolError: the spool cannot be read.
        """
        # First how far all is committed: whatever lies above that is in the spool, and the rest in the warehouse from then on.
        with self._listed.rows.turn():
            marks = self._warehouse.marks()
        return self._committed(name, author), self._waiting.by(name, author, marks)

    def _committed(self, name: str, author: str | None) -> pa.Table:
        key, state = (name, author), self._listed.listing.current()
        with self._lock:
            if key in self._known and self._known[key][0] == state:
                self._known.move_to_end(key)
                return self._known[key][1]
        whose = "" if author is None else f" AND author = {literal(author)}"
        sql = f"SELECT DISTINCT target_kind AS kind, target_id AS id, text AS over FROM feedback WHERE name = {literal(name)}{whose}"
        with self._listed.rows.turn():
            found = self._warehouse.query(sql)
        with self._lock:
            self._known[key] = (state, found)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return found


class _Waiting:
    """Feedback in the gateway's spool that is not committed yet, read once."""

    def __init__(self, keeper: Keeper) -> None:
        self._path, self._producer = keeper.writer.spool.path, keeper.writer.spool.producer
        self._lock = threading.Lock()
        self._reached = 0
        self._said: dict[int, tuple[str, str | None, Target]] = {}

    def by(self, name: str, author: str | None, marks: Mapping[str, int]) -> list[Target]:
        committed = marks.get(self._producer, 0)
        with self._lock:
            self._said = {number: said for number, said in self._said.items() if number > committed}
            self._read(max(self._reached, committed))
            said = list(self._said.values())
        return [target for named, whose, target in said if named == name and author in (None, whose)]

    def _read(self, after: int) -> None:
        with closing(SpoolReader(self._path)) as reader:
            last = reader.last()
            while records := reader.read(after, limit=_AT_ONCE, kind="feedback"):
                for record in records:
                    self._note(record.seq, orjson.loads(record.body))
                after = records[-1].seq
            self._reached = max(after, last)

    def _note(self, number: int, said: dict[str, Any]) -> None:
        kind = next((kind for kind in _KINDS if said.get(f"{kind}_id") is not None), None)
        if kind is not None and "undo" not in said:
            target = Target(kind, said[f"{kind}_id"], said.get("rejected_id"))
            self._said[number] = (said.get("name") or _kind_of(said), said.get("author"), target)


def _kind_of(said: dict[str, Any]) -> str:
    """The name of feedback that has none."""
    return Feedback.model_construct(**said).kind  # it was checked when it was taken
