"""The tables `trajectories` and `groups`: what the views of these names say, kept from one commit to another.

They are made by the views themselves, over the facts about those trajectories that something came about since: so a summary that is
behind costs time and never an answer. Each one's ledger has the commit that its rows are of and the marks at it; what the newer commits
brought tells which rows are not as they were. Whoever takes facts away clears the summaries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._query.kept import Kept, Part, read_back, stored
from stepwell.warehouse._query.query import run_query
from stepwell.warehouse._query.rows import rows_of
from stepwell.warehouse._restore.read import matching
from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.newer import Newer
from stepwell.warehouse._tables.schema import EVENTS, EXCHANGES, GROUPS, STEPS, SUMMARIES, TRAJECTORIES
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._tables.versions import History

_MANY = 20_000
"""Trajectories from which on all are made anew: naming them would take longer."""

_ALL = "ledger IS NULL"

_COUNTED = ("attempt.superseded", "attempt.used", "trainable", "undo")
"""Events about a step that may change what its trajectory says: how many of its steps may be trained on."""

_OF_TRAJECTORIES = (
    f"SELECT {', '.join(read_back(TRAJECTORIES))}, e.marks AS awaits FROM trajectories "
    "LEFT JOIN (SELECT trajectory_id, marks FROM _ended WHERE NOT arrived) e USING (trajectory_id) "
    "WHERE trajectory_id IS NOT NULL"
)
_OF_GROUPS = f"SELECT {', '.join(read_back(GROUPS))} FROM groups"


class Summaries:
    """The two summaries of a warehouse; one thread."""

    def __init__(self, tables: Mapping[str, LedgerTable]) -> None:
        """The tables are read as they are: whoever has them refreshes them, the summaries before `commits`, and that before the facts."""
        self._tables = tables
        self._newer = {spec.name: Newer() for spec in (STEPS, EVENTS, EXCHANGES)}
        self._last: tuple[tuple[int, ...], Kept] | None = None

    def kept(self, history: History, *, groups: bool = False) -> Kept | None:
        """What the views at the newest commit can be made of; with `groups` the view of these as well. None: of the facts only.

        Raises:
            StoreError: the store failed.
        """
        state = (history.number, int(groups), *(table.dataset.version for table in self._tables.values()))
        if self._last is None or self._last[0] != state:
            found = guarded(self._trajectories.uri, self._trajectories_at, history)
            if found is None:
                return None
            if groups and self._together():
                found = Kept(found.trajectories, guarded(self._trajectories.uri, self._groups_at, history, found))
            self._last = (state, found)
        return self._last[1]

    def update(self, history: History) -> int:
        """Bring both tables to the newest commit; how many trajectories that took.

        Raises:
            CommitConflict: somebody else changed one of them; the next update does what is left.
            StoreError: the store failed, likewise.
        """
        current = self._trajectories.number() == history.number and self._trajectories.marks() == history.marks()
        if current and self._together():
            return 0
        found = self.kept(history, groups=True)
        if found is None:
            made = stored(TRAJECTORIES, self._made(_OF_TRAJECTORIES, history))
            return self._write(history, made, _ALL, stored(GROUPS, self._made(_OF_GROUPS, history, made)), _ALL)
        trajectories, groups = found.trajectories, found.groups
        if groups is None:
            grouped, gone = stored(GROUPS, self._made(_OF_GROUPS, history, kept=found)), _ALL
        else:
            grouped, gone = groups.fresh, _among("group_id", groups.touched)
        return self._write(history, trajectories.fresh, _among("trajectory_id", trajectories.touched), grouped, gone)

    @property
    def _trajectories(self) -> LedgerTable:
        return self._tables[TRAJECTORIES.name]

    def _together(self) -> bool:
        """Whether the groups are those of the trajectories: the second of an update's two commits may be missing."""
        return self._trajectories.number() == self._tables[GROUPS.name].number()

    def _write(self, history: History, rows: pa.Table, gone: str, grouped: pa.Table, gone_groups: str) -> int:
        marks = history.marks()
        self._trajectories.rewrite(rows, gone, marks, history.number)
        self._tables[GROUPS.name].rewrite(grouped, gone_groups, marks, history.number)
        count: int = rows.num_rows
        return count

    def _made(self, sql: str, history: History, within: pa.Table | None = None, kept: Kept | None = None) -> pa.Table:
        """The answer of the views over the facts, or over these rows of the summary of trajectories."""
        if within is not None:
            nothing = within.slice(0, 0)
            kept = Kept(Part(within, nothing.select(["trajectory_id"]), nothing))
        return run_query(self._tables, sql, history=history, kept=kept)

    def _trajectories_at(self, history: History) -> Kept | None:
        table, number = self._trajectories, self._trajectories.number()
        # In a warehouse that was copied or restored, a number may mean another commit than the one that was summarised.
        if not 0 < number <= history.number or history.marks(number) != table.marks():
            return None
        touched = self._touched(history)
        if len(touched) > _MANY:
            return None
        fresh = (
            stored(
                TRAJECTORIES,
                run_query(self._tables, _OF_TRAJECTORIES, history=history, within=rows_of(self._tables, touched)),
            )
            if touched
            else TRAJECTORIES.schema.empty_table()
        )
        return Kept(Part(table.dataset, pa.table({"trajectory_id": pa.array(touched, pa.string())}), fresh))

    def _touched(self, history: History) -> list[str]:
        """The trajectories that something came about since, and those that have ended meanwhile."""
        now, before = history.marks(), self._trajectories.marks()

        def newer(table: str, *columns: str) -> pa.Table:
            return self._newer[table].rows(self._tables[table].dataset, before, now, columns)

        found = {*newer(STEPS.name, "trajectory_id")["trajectory_id"].unique().to_pylist()}
        found |= {*newer(EXCHANGES.name, "trajectory_id")["trajectory_id"].unique().to_pylist()}
        steps: set[str] = set()
        for event in newer(EVENTS.name, "kind", "target_kind", "target_id").to_pylist():
            if event["target_kind"] == "trajectory":
                found.add(event["target_id"])
            elif event["kind"] in _COUNTED:
                steps.add(event["target_id"])
        theirs = matching(self._tables[STEPS.name].dataset, "step_id", sorted(steps), ["trajectory_id"])
        waiting = self._trajectories.dataset.to_table(columns=["trajectory_id", "awaits"], filter="awaits IS NOT NULL")
        found |= {*theirs["trajectory_id"].to_pylist()}
        found |= {row["trajectory_id"] for row in waiting.to_pylist() if _reached(row["awaits"], now)}
        return sorted(found - {None})

    def _groups_at(self, history: History, found: Kept) -> Part:
        """The groups that touched trajectories were in, and those that they are in now."""
        part, table = found.trajectories, self._tables[GROUPS.name].dataset
        ids = part.touched["trajectory_id"].to_pylist()
        before = matching(part.kept, "trajectory_id", ids, ["group_id"])["group_id"].to_pylist()
        touched = sorted({*before, *part.fresh["group_id"].to_pylist()} - {None})
        keys = pa.table({"group_id": pa.array(touched, pa.string())})
        if not touched:
            return Part(table, keys, GROUPS.schema.empty_table())
        members = matching(part.kept, "group_id", touched, TRAJECTORIES.schema.names)
        own = _in(members["trajectory_id"], part.touched["trajectory_id"])
        members = pa.concat_tables(
            [members.filter(pc.call_function("invert", [own])).cast(TRAJECTORIES.schema), part.fresh]
        )
        made = stored(GROUPS, self._made(_OF_GROUPS, history, members))
        return Part(table, keys, made.filter(_in(made["group_id"], keys["group_id"])))


def clear(tables: Mapping[str, LedgerTable]) -> None:
    """Forget what was summarised: facts were taken away. A summary that is being made of the old ones cannot land after this.

    Raises:
        StoreError: the store failed, or others came first every time.
    """
    for table in (tables[spec.name] for spec in SUMMARIES):
        again(table, partial(table.rewrite, table.spec.schema.empty_table(), _ALL, {}, 0))


def about_summaries(sql: str) -> frozenset[str]:
    """Which of the summaries' views a statement names, and maybe more."""
    return frozenset(re.findall(r"\w+", sql.lower())) & {spec.name for spec in SUMMARIES}


def _in(values: pa.ChunkedArray, among: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.call_function("is_in", [values], pc.SetLookupOptions(value_set=among.combine_chunks()))


def _among(key: str, ids: pa.Table) -> str:
    listed = ", ".join("'" + one.replace("'", "''") + "'" for one in ids[key].to_pylist())
    return f"{key} IN ({listed})" if listed else "false"


def _reached(awaits: str, marks: Mapping[str, int]) -> bool:
    needed = orjson.loads(awaits)
    return all(marks.get(producer, 0) >= mark for producer, mark in needed.items())
