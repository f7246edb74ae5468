"""The rows that a page can hold: found by the order of commit, so that a page costs what it has and not what the table has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._query.asked import names_in
from stepwell.warehouse._query.page import About, Page, understood
from stepwell.warehouse._query.query import run_query, tree_of
from stepwell.warehouse._query.rows import rows_about
from stepwell.warehouse._query.views import FEEDBACK_KINDS
from stepwell.warehouse._restore.read import matching
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.newer import Newer
from stepwell.warehouse._tables.numbers import as_arrow
from stepwell.warehouse._tables.schema import EVENTS, STEPS
from stepwell.warehouse._tables.versions import History

_Names = Collection[str] | None
"""What a statement names; None where that may be anything."""

_TRIES = 2
"""How many times more rows are looked at when a condition left too few, before all are."""
_MORE = 8
_MOST = 20_000
"""Rows above which looking at all is as good."""


class PageRows:
    """For one warehouse; one thread."""

    def __init__(self, tables: Mapping[str, LedgerTable]) -> None:
        self._tables = tables
        self._newer = {spec.name: Newer() for spec in (STEPS, EVENTS)}

    def answer(self, sql: str, history: History, at: int) -> pa.Table | None:
        """The answer at commit `at` to a statement that needs only some rows; None for any other.

        Raises:
            StepwellError: the statement cannot be run, the store failed.
        """
        tree = tree_of(sql)
        asked = understood(tree)
        if asked is None:
            return None
        if isinstance(asked, About):
            within = self._about(asked, names_in(tree))
            return within and run_query(self._tables, sql, history=history, at=at, within=within, tree=tree)
        for within, last in self._candidates(asked, history, at, names_in(tree)):
            found = run_query(self._tables, sql, history=history, at=at, within=within, tree=tree)
            if last or found.num_rows >= asked.limit:
                # Over few rows DuckDB (2.0.1) may lose the limit above outer joins, though not the order.
                return found.slice(0, asked.limit)
        return None

    def _about(self, about: About, names: _Names) -> dict[str, pa.Table] | None:
        """All that it takes to resolve the columns `names` of the rows that are meant; None where they are too many."""
        values = list(about.values)
        if about.table != STEPS.name:
            events = self._tables[EVENTS.name].dataset
            return {"events": matching(events, about.column, values, events.schema.names)}
        dataset = self._tables[STEPS.name].dataset
        if about.column != "step_id" and len(matching(dataset, about.column, values, ["sequence"])) > _MOST:
            return None
        return rows_about(self._tables, about.column, values, names)

    def _candidates(
        self, page: Page, history: History, at: int, names: _Names
    ) -> Iterator[tuple[dict[str, pa.Table], bool]]:
        """Ever more of the first rows in the page's order, and whether these are all that there are."""
        many = page.limit
        for _ in range(_TRIES):
            found = self._first(page, history, at, many)
            if found is None:
                return
            rows, last = found
            yield self._rows(page.table, rows, names), last
            if last:
                return
            many *= _MORE

    def _rows(self, table: str, rows: pa.Table, names: _Names) -> dict[str, pa.Table]:
        if table == STEPS.name:
            return rows_about(self._tables, STEPS.key, rows[STEPS.key].to_pylist(), names)
        events = self._tables[EVENTS.name].dataset
        # What counts of feedback is told by all that was said about the same.
        column = "target_id" if table == "feedback" else EVENTS.key
        return {"events": matching(events, column, rows[column].drop_null().unique().to_pylist(), events.schema.names)}

    def _first(self, page: Page, history: History, at: int, many: int) -> tuple[pa.Table, bool] | None:
        """At least the first `many` rows, and whether there are no more; None when they cannot be told from too many."""
        commits = _Commits(history, at, page)
        records, table = many, self._tables[STEPS.name if page.table == STEPS.name else EVENTS.name]
        said = page.table == "feedback"
        columns = [table.spec.key, "producer", "sequence", *(("kind", "target_id") if said else ())]
        while True:
            reach = commits.reach(records)
            if reach is None:
                return None
            after, upto, last = reach
            rows = self._newer[table.spec.name].rows(table.dataset, after, upto, columns)
            rows = rows.filter(pc.field("kind").isin(list(FEEDBACK_KINDS))) if said else rows
            rows = _in_order(
                rows.append_column("commit", as_arrow(history.commit_of(rows["producer"], rows["sequence"]))), page
            )
            if rows.num_rows >= many or last:
                kept = _upto(rows, many, page.keys)
                return rows.slice(0, kept), last and kept == rows.num_rows
            records *= _MORE


class _Commits:
    """How many records each commit has brought, from a page's beginning on."""

    def __init__(self, history: History, at: int, page: Page) -> None:
        self._history, self._at, self._newest = history, at, page.order == "newest"
        rows = history.upto(at)
        if page.beyond is not None:
            commit = pc.field("commit")
            rows = rows.filter(commit <= page.beyond[0] if self._newest else commit >= page.beyond[0])
        if page.since is not None:
            rows = rows.filter(pc.field("commit") > page.since)
        sizes = pc.call_function("subtract", [rows["sequence"], rows["after"]])
        by_commit = pa.table({"commit": rows["commit"], "size": sizes}).group_by("commit").aggregate([("size", "sum")])
        by_commit = by_commit.sort_by([("commit", "descending" if self._newest else "ascending")])
        self._numbers = by_commit["commit"].to_numpy()
        self._brought = np.cumsum(by_commit["size_sum"].to_numpy())

    def reach(self, records: int) -> tuple[dict[str, int], dict[str, int], bool] | None:
        """The marks between which at least so many records came, and whether those are all; None for far more than that."""
        if not len(self._numbers):
            return {}, {}, True
        place = min(int(np.searchsorted(self._brought, records)), len(self._numbers) - 1)
        last = place == len(self._numbers) - 1
        if self._brought[place] > max(_MOST * 10, records * _MORE):
            return None
        first, final = sorted((int(self._numbers[0]), int(self._numbers[place])))
        return self._history.marks(first - 1), self._history.marks(final), last


def _in_order(rows: pa.Table, page: Page) -> pa.Table:
    direction = "descending" if page.order == "newest" else "ascending"
    rows = rows.sort_by([(name, direction) for name in ("commit", "producer", "sequence")])
    if page.beyond is None:
        return rows
    commit, producer, sequence = (pc.field(name) for name in ("commit", "producer", "sequence"))
    c, p, s = page.beyond
    if page.order == "newest":
        return rows.filter((commit < c) | ((commit == c) & ((producer < p) | ((producer == p) & (sequence <= s)))))
    return rows.filter((commit > c) | ((commit == c) & ((producer > p) | ((producer == p) & (sequence >= s)))))


def _upto(rows: pa.Table, many: int, keys: int) -> int:
    """How many rows to take so that none is left out that is like the last of them by the keys."""
    count: int = rows.num_rows
    if not keys or count <= many:
        return min(many, count)
    names = ("commit", "producer", "sequence")[:keys]
    last = {name: rows[name][many - 1] for name in names}
    like: pa.Table = rows.slice(many)
    for name in names:
        like = like.filter(pc.field(name) == last[name])
    return many + len(like)
