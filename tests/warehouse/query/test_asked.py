"""What is written in a query."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from stepwell.warehouse._query.asked import constants_in, names_in, parsed


@pytest.fixture
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT count(*) FROM steps", {"steps"}),
        ('SELECT a, "B" FROM Steps WHERE c = 1 ORDER BY d', {"steps", "a", "b", "c", "d"}),
        ("SELECT x.a FROM steps x JOIN events y USING (b)", {"steps", "events", "x", "y", "a", "b"}),
        ("SELECT usage.input FROM steps", {"steps", "usage", "input"}),
        ("SELECT sum(a * 2) FILTER (b) OVER (PARTITION BY c ORDER BY d) FROM steps", {"steps", "a", "b", "c", "d"}),
        ("SELECT a FROM steps WHERE b IN (SELECT c FROM events)", {"steps", "events", "a", "b", "c"}),
        ("WITH q AS (SELECT a FROM steps) SELECT count(a) FROM q", {"steps", "q", "a"}),
        ("SELECT a FROM steps UNION SELECT b FROM events", {"steps", "events", "a", "b"}),
        ("SELECT 'commit'", set()),
    ],
)
def test_names(db: duckdb.DuckDBPyConnection, sql: str, names: set[str]) -> None:
    assert set(names_in(parsed(db, sql)) or ()) == names


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM steps",
        "FROM steps",
        "TABLE steps",
        "SUMMARIZE steps",
        "DESCRIBE steps",
        "SELECT s.* FROM steps s",
        "SELECT * EXCLUDE (a) FROM steps",
        "SELECT COLUMNS('x.*') FROM steps",
        "SELECT steps FROM steps",
        "SELECT s FROM steps s",
        "SELECT to_json(q) FROM (SELECT a FROM steps) q",
        "SELECT a FROM steps NATURAL JOIN events",
        "SELECT a FROM query_table('steps')",
        "WITH q AS (SELECT * FROM steps) SELECT a FROM q",
        "EXPLAIN SELECT a FROM steps",
        "PIVOT steps ON a USING count(*)",
    ],
)
def test_what_may_mean_any_column(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert names_in(parsed(db, sql)) is None


def test_a_deep_statement(db: duckdb.DuckDBPyConnection) -> None:
    assert set(names_in(parsed(db, f"SELECT {'(' * 200}a{')' * 200} FROM steps")) or ()) == {"steps", "a"}


def test_constants(db: duckdb.DuckDBPyConnection) -> None:
    assert constants_in(db, "SELECT a FROM b WHERE c = 'd' AND e IN (1, 'f') AND g > 1.5") == {"d", 1, "f"}
    assert not constants_in(db, "EXPLAIN SELECT 1")
