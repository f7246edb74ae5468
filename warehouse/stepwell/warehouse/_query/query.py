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
from stepwell.warehouse._tables.versions import History

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
) -> pa.Table:
    """The result of one query over the state at commit `at`, by default the newest that `history` knows.

    `prompt_ids`, `messages` and `tools` exist when the statement names them: they are read whole. `within`: rows of some
    of the tables, by name, to look at instead of all; what they resolve to is as if there were no others. `kept`: what
    the views `trajectories` and `groups` are to be made of, where that is not the facts; only for the newest commit.

    Raises:
        BadQuery: not one statement, not a query, or refused by the database.
    """
    with connection() as db:
        try:
            _only_a_query(db, sql)
            rows = {name: table.dataset for name, table in tables.items()}
            _register(db, {**rows, **(within or {})}, history, at)
            with _define(db, tables, sql, kept, few=within is not None):
                return db.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise BadQuery(str(error)) from error


def tree_of(sql: str) -> Any:
    """The statement as DuckDB's parser has it; None for one that it has no such form for, or that is wrong."""
    with connection() as db:
        try:
            return parsed(db, sql)
        except duckdb.Error:
            return None


def _only_a_query(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = db.extract_statements(sql)
    if len(statements) != 1:
        raise BadQuery(f"one statement at a time, please: this is {len(statements)}")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise BadQuery("the warehouse is read only here: only a query (SELECT …) can be run")


def _register(db: duckdb.DuckDBPyConnection, rows: Mapping[str, Any], history: History, at: int | None) -> None:
    """The tables of the version, and what says which of their rows are part of it."""
    marks = history.marks(at)
    db.register("_marks", pa.table({"producer": list(marks), "mark": pa.array(list(marks.values()), pa.int64())}))
    db.register("_commits", history.upto(at))
    for spec in (STEPS, EVENTS, EXCHANGES):
        db.register(f"_{spec.name}", rows[spec.name])
        db.execute(
            f"CREATE TEMP VIEW _visible_{spec.name} AS "
            f"SELECT * EXCLUDE (ledger) FROM _{spec.name} WHERE ledger IS NULL AND {_visible(marks)}"
        )
    for spec in (DATASETS, DATASET_ROWS):
        db.register(f"_{spec.name}", rows[spec.name])


def _visible(marks: Mapping[str, int]) -> str:
    """As one expression, which is evaluated while scanning. (A join reads more; of many ORs Lance makes a plan of gigabytes.)"""
    if not marks:
        return "false"
    pairs = ", ".join("'{}': {}".format(producer.replace("'", "''"), mark) for producer, mark in marks.items())
    return f"sequence <= MAP {{{pairs}}}[producer]"


def _define(
    db: duckdb.DuckDBPyConnection, tables: Mapping[str, LedgerTable], sql: str, kept: Kept | None, *, few: bool
) -> WholeInSql:
    """The views that the statement names, and those that they are over: each one costs a few milliseconds."""
    words = {word.lower() for word in re.findall(r"\w+", sql)}
    named = tables_in(db, sql)
    named = frozenset(words) if named is None else named
    whole = [name for name in WHOLE if name in words]
    reading = WholeInSql(tables, whole)
    reading.register(db)
    asked = names_in(db, sql) if "steps" in named else frozenset()
    over_trajectories = not named.isdisjoint({"trajectories", "groups"})
    views = {**VIEWS, "steps": steps_view(asked, whole, over_trajectories=over_trajectories)}
    if kept is not None:
        views |= kept.views(db)
    made: set[str] = set()

    def make(name: str) -> None:
        if name not in made:
            made.add(name)
            definition, needed = views[name]
            for other in needed:
                make(other)
            # Of few rows the ones that several others are over are worked out once, and not in each of those.
            db.execute(definition.replace("VIEW", "TABLE", 1) if few and name in _SHARED else definition)

    for name in views:
        if name in named:
            make(name)
    return reading
