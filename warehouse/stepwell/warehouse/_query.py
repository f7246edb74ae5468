"""SQL over the warehouse: DuckDB, read only, over views of what is committed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing

import duckdb
import pyarrow as pa

from stepwell.errors import StepwellError
from stepwell.warehouse._ledger import LedgerTable
from stepwell.warehouse._read import whole_steps
from stepwell.warehouse._views import VIEWS
from stepwell.warehouse._whole import ENCODED


class BadQuery(StepwellError, ValueError):
    """The SQL statement cannot be run; the message is the database's, with the place."""


_WHOLE_COLUMNS = re.compile(r"\b(prompt_ids|messages|tools)\b", re.IGNORECASE)


def run_query(tables: Mapping[str, LedgerTable], sql: str) -> pa.Table:
    """The result of one query. `prompt_ids`, `messages` and `tools` exist when the statement names them: they are read whole.

    Raises:
        BadQuery: not one statement, not a query, or refused by the database.
    """
    with closing(
        duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    ) as db:
        try:
            _only_a_query(db, sql)
            _define(db, tables, whole=bool(_WHOLE_COLUMNS.search(sql)))
            db.execute("SET enable_external_access = false")
            db.execute(
                "SET python_enable_replacements = false"
            )  # names in SQL are views, never variables of this process
            db.execute("SET lock_configuration = true")
            return db.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            raise BadQuery(str(error)) from error


def _only_a_query(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = db.extract_statements(sql)
    if len(statements) != 1:
        raise BadQuery(f"one statement at a time, please: this is {len(statements)}")
    if statements[0].type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        raise BadQuery("the warehouse is read only here: only a query (SELECT …) can be run")


def _define(db: duckdb.DuckDBPyConnection, tables: Mapping[str, LedgerTable], *, whole: bool) -> None:
    for name, table in tables.items():
        db.register(f"_{name}", table.dataset)
    marks = tables["commits"].marks()
    db.register("_marks", pa.table({"producer": list(marks), "mark": pa.array(list(marks.values()), pa.int64())}))
    stored = f"SELECT * EXCLUDE ({', '.join((*ENCODED, 'ledger'))}) FROM _steps WHERE ledger IS NULL"
    if whole:
        db.register("_whole", whole_steps(tables["steps"].dataset))
        stored = f"SELECT s.*, w.* EXCLUDE (step_id) FROM ({stored}) s JOIN _whole w USING (step_id)"
    db.execute(f"CREATE VIEW _visible_steps AS {stored}")
    for view in VIEWS:
        db.execute(view)
