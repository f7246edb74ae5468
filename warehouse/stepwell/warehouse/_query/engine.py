"""DuckDB for one query after another: making a database takes longer than most of the queries do.

None of them can reach a file, change a setting or see what another one was about: each has a connection of its own, whose views
are temporary.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_SETTINGS = (
    # Its estimates of Arrow tables are of one row, by which it would compare every row with every commit.
    "GLOBAL asof_loop_join_threshold = 0",
    "enable_external_access = false",
    "python_enable_replacements = false",  # names in SQL are views, never variables of this process
    "lock_configuration = true",
)

_idle: list[tuple[int, duckdb.DuckDBPyConnection]] = []
"""Databases that nobody uses, and the process that made each: a child's threads would not be there."""


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a database that no other query uses meanwhile. Whoever makes functions takes them away again."""
    database = _borrowed()
    db = database.cursor()
    try:
        yield db
    except BaseException:
        database.close()  # something of the query may be left in it
        raise
    finally:
        db.close()
    _idle.append((os.getpid(), database))


def _borrowed() -> duckdb.DuckDBPyConnection:
    try:
        while True:
            process, database = _idle.pop()
            if process == os.getpid():
                return database
    except IndexError:  # found out by trying: another thread may take the last one between a look and the taking
        pass
    database = duckdb.connect(config=_CONFIG)
    for setting in _SETTINGS:
        database.execute(f"SET {setting}")
    return database
