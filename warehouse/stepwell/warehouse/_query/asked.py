"""What is written in a query: the names that it asks for, so that nothing else has to be looked up, and its values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import orjson


def names_in(tree: Any) -> frozenset[str] | None:
    """Every column, table and alias that a statement (see `parsed`) names, in lower case; None where it may mean any column, as `*` does.

    Column names alone would not do: a table's name in the place of a column means all of its columns.
    """
    if tree is None:
        return None
    names: set[str] = set()
    tables: set[str] = set()
    qualifiers: set[str] = set()
    for node in nodes_in(tree):
        if node.get("class") == "STAR" or node.get("ref_type") == "NATURAL" or node.get("type") == "TABLE_FUNCTION":
            return None
        if node.get("class") == "COLUMN_REF":
            parts = [name.lower() for name in node["column_names"]]
            names.update(parts if len(parts) == 1 else parts[1:])  # the first of several may be the table
            qualifiers.add(parts[0])
        names.update(name.lower() for name in node.get("using_columns") or ())
        tables.update(str(node[key]).lower() for key in ("table_name", "alias") if "table_name" in node and node[key])
        if node.get("type") == "SUBQUERY" and node.get("alias"):
            tables.add(str(node["alias"]).lower())
    return None if names & tables else frozenset(names | tables | qualifiers)


def tables_in(tree: Any) -> frozenset[str] | None:
    """Every table that a statement names, in lower case; None where that cannot be told."""
    nodes = list(nodes_in(tree))
    if tree is None or any(node.get("type") == "TABLE_FUNCTION" for node in nodes):
        return None
    return frozenset(str(node["table_name"]).lower() for node in nodes if node.get("table_name"))


def constants_in(db: duckdb.DuckDBPyConnection, sql: str) -> frozenset[str | int]:
    """Every text and whole number that a statement contains as a value."""
    literals = [node["literal"] for node in nodes_in(parsed(db, sql)) if isinstance(node.get("literal"), dict)]
    texts = {str(literal["text"]) for literal in literals if literal.get("kind") == "STRING"}
    return frozenset(texts | {int(literal["text"]) for literal in literals if literal.get("kind") == "INTEGER"})


def parsed(db: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The statement as a tree; None for one that has no such form: EXPLAIN, PIVOT and the like."""
    [(text,)] = db.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = orjson.loads(text)
    return None if tree["error"] else tree["statements"]


def nodes_in(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value; without recursion, since a statement may be nested deeply."""
    waiting = [tree]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
