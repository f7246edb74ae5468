"""SQL over the warehouse: DuckDB, read only, over views of what was committed at one version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from stepwell.errors import StepwellError
from stepwell.warehouse._query.asked import names_in, parsed, tables_in
from stepwell.warehouse._query.engine import connection
from stepwell.warehouse._query.kept import Kept
from stepwell.warehouse._query.view_of_steps import steps_view
from stepwell.warehouse._query.views import VIEWS
from stepwell.warehouse._restore.in_sql import WholeInSql
from stepwell.warehouse._restore.whole import WHOLE
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import DATASET_ROWS, DATASETS, EVENTS, EXCHANGES, STEPS
from stepwell.warehouse._tables.table import FileGone, says_gone
from stepwell.warehouse._tables.versions import History

_MOST = 4 << 30
"""Bytes of an answer with whole prompts or texts, which is one table in memory."""
_SHARED = ("events", "_said")


class BadQuery(StepwellError, ValueError):
    """The SQL statement cannot be run; the message is the database's, with the place."""


def run_query(
    tables: Mapping[str, LedgerTable],
    sql: str,
    *,
    history: History,
    at: int | None = None,
    within: Mapping[str, pa.Table] | None = None,
    kept: Kept | None = None,
    tree: Any = None,
) -> pa.Table:
    """The result of one query over the state at commit `at`, by default the newest that `history` knows.

    `prompt_ids`, `messages` and `tools` exist when the statement names them: they are read whole. `within`: rows of some
    of the tables, by name, to look at instead of all; what they resolve to is as if there were no others. `kept`: what
    the views `trajectories` and `groups` are to be made of, where that is not the facts; only for the newest commit.
    `tree`: the statement as `tree_of` gave it.

    Raises:
        BadQuery: not one statement, not a query, or refused by the database.
        FileGone: a file of the version that was read is gone.
    """
    with connection() as db:
        try:
            if tree is None:
                _only_a_query(db, sql)
                tree = parsed(db, sql)
            rows = {**{name: table.dataset for name, table in tables.items()}, **(within or {})}
            scope = _Scope(db, _sources(rows, history, at), few=within is not None)
            with scope.define(tables, sql, tree, kept) as reading:
                return _within_bounds(db, sql) if reading.columns else db.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            if says_gone(error):
                raise FileGone.by(error) from error
            raise BadQuery(str(error)) from error


def _within_bounds(db: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """The answer, of which no more is made than may be handed out.

    Raises:
        BadQuery: it is too large.
        duckdb.Error: it failed.
    """
    batches, size = list[pa.RecordBatch](), 0
    with db.sql(sql).to_arrow_reader(2048) as reader:
        try:
            for batch in reader:
                batches.append(batch)
                size += batch.nbytes
                if size > _MOST:
                    raise BadQuery(
                        f"the answer has more than {_MOST >> 30} GiB of whole prompts or texts: read them with `warehouse.steps(...)`, "
                        "which gives batches, or with `stepwell dataset export`; or ask for less"
                    )
        except (pa.ArrowException, OSError) as error:  # what fails while it is read comes through Arrow
            raise duckdb.Error(str(error)) from error
        return pa.Table.from_batches(batches, reader.schema)


def tree_of(sql: str) -> Any:
    """The statement, which is one query, as DuckDB's parser has it; None for one that it has no such form for, or that is wrong."""
    with connection() as db:
        try:
            tree = parsed(db, sql)
        except duckdb.Error:
            return None
        return tree if tree is not None and len(tree) == 1 else None


def _only_a_query(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = db.extract_statements(sql)
    if len(statements) != 1:
        raise BadQuery(f"one statement at a time, please: this is {len(statements)}")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise BadQuery("the warehouse is read only here: only a query (SELECT …) can be run")


def _sources(rows: Mapping[str, Any], history: History, at: int | None) -> dict[str, Any]:
    """What the views are over, by name: tables, and the definitions of views of their rows that are part of the version."""
    marks = history.marks(at)
    found = {f"_{spec.name}": rows[spec.name] for spec in (STEPS, EVENTS, EXCHANGES, DATASETS, DATASET_ROWS)}
    found["_marks"] = pa.table({"producer": list(marks), "mark": pa.array(list(marks.values()), pa.int64())})
    found["_commits"] = history.upto(at)
    for spec in (STEPS, EVENTS, EXCHANGES):
        found[f"_visible_{spec.name}"] = (
            f"CREATE TEMP VIEW _visible_{spec.name} AS "
            f"SELECT * EXCLUDE (ledger) FROM _{spec.name} WHERE ledger IS NULL AND {_visible(marks)}"
        )
    return found


def _visible(marks: Mapping[str, int]) -> str:
    """As one expression, which is evaluated while scanning. (A join reads more; of many ORs Lance makes a plan of gigabytes.)"""
    if not marks:
        return "false"
    pairs = ", ".join("'{}': {}".format(producer.replace("'", "''"), mark) for producer, mark in marks.items())
    return f"sequence <= MAP {{{pairs}}}[producer]"


class _Scope:
    """What a statement can name: made when it is named, since each table and each view costs milliseconds."""

    def __init__(self, db: duckdb.DuckDBPyConnection, sources: Mapping[str, Any], *, few: bool) -> None:
        self._db, self._sources, self._few = db, sources, few
        self._made: set[str] = set()
        self._views: Mapping[str, tuple[str, tuple[str, ...]]] = {}

    def define(self, tables: Mapping[str, LedgerTable], sql: str, tree: Any, kept: Kept | None) -> WholeInSql:
        """The views that the statement names, and what they are over."""
        words = {word.lower() for word in re.findall(r"\w+", sql)}
        named = tables_in(tree)
        named = frozenset(words) if named is None else named
        whole = [name for name in WHOLE if name in words]
        reading = WholeInSql(tables, whole)
        reading.register(self._db)
        asked = names_in(tree) if "steps" in named else frozenset()
        over_trajectories = not named.isdisjoint({"trajectories", "groups"})
        self._views = {**VIEWS, "steps": steps_view(asked, whole, over_trajectories=over_trajectories)}
        if kept is not None:
            self._views = {**self._views, **kept.views(self._db)}
        for name in named:
            self._make(name)
        return reading

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        self._made.add(name)
        if name in self._views:
            definition, needed = self._views[name]
            for other in needed:
                self._make(other)
            # Of few rows the ones that several others are over are worked out once, and not in each of those.
            self._define(
                definition.replace("VIEW", "TABLE", 1) if self._few and name in _SHARED else definition,
            )
        elif isinstance(source := self._sources.get(name), str):
            self._define(source)
        elif source is not None:
            self._db.register(name, source)

    def _define(self, definition: str) -> None:
        for name in set(re.findall(r"\b_\w+", definition)) & self._sources.keys():
            self._make(name)
        self._db.execute(definition)
