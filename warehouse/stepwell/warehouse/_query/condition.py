"""Conditions that somebody else wrote: what they may contain, and which columns they are over."""

from __future__ import annotations

from typing import Any

import duckdb

from stepwell.warehouse._query.asked import nodes_in, parsed
from stepwell.warehouse._query.engine import connection
from stepwell.warehouse._query.query import BadQuery

_FORBIDDEN = {"SUBQUERY", "WINDOW", "STAR", "PARAMETER"}

# Whoever may read may ask, in a process that does other work, too. So only what a look at the row's own values costs: nothing that makes
# gigabytes of a number (range, repeat, lpad, lists of lambdas, arrays of a given size), waits (sleep_ms), or tells of the process.
_NAMES = """
!~~ !~~* % && * ** + - -> ->> / // <@ @ @> ^ ^@ ~~ ~~* ~~~ like_escape not_like_escape ilike_escape not_ilike_escape
row nullif greatest least
abs ceil ceiling exp floor isfinite isinf isnan ln log log10 log2 mod pow power round sign sqrt trunc
contains ends_with lcase left len length lower ltrim octet_length position prefix regexp_extract regexp_full_match
regexp_matches right rtrim split_part starts_with strlen strpos substr substring suffix trim ucase upper
array_contains array_extract array_has array_has_all array_has_any array_length array_position cardinality
element_at list_aggregate list_any_value list_avg list_contains list_count list_extract list_first list_has
list_has_all list_has_any list_indexof list_last list_max list_min list_position list_sum list_value map_contains
map_extract map_extract_value map_keys map_values struct_extract struct_pack
json_array_length json_contains json_exists json_extract json_extract_path json_extract_path_text
json_extract_string json_keys json_type json_valid json_value
age current_timestamp date_diff date_part date_sub date_trunc datediff datepart datetrunc day dayofweek epoch
epoch_ms epoch_us get_current_timestamp hour make_date make_timestamp make_timestamptz minute month now second
strftime strptime timezone to_days to_hours to_microseconds to_milliseconds to_minutes to_months to_seconds
to_timestamp to_weeks to_years today week year
"""
_FUNCTIONS = frozenset(_NAMES.split())


def columns_of_condition(condition: str) -> frozenset[str]:
    """The columns, in lower case, that a condition over one row is about.

    It is one expression, whatever is written around it: no other clause, no parentheses that close what was opened before. It has
    no subquery and no window, and calls nothing that costs much more than a look at the row.

    Raises:
        BadQuery: it is no such condition; the message is the database's where that found it.
    """
    tree = _node(condition, f"({condition}\n)")
    _node(condition, f"(CASE WHEN {condition}\n THEN true END)")  # what is one expression goes between words, too
    called = {str(one["function_name"]).lower() for one in nodes_in(tree) if one.get("class") == "FUNCTION"}
    if unknown := sorted(called - _FUNCTIONS):
        raise BadQuery(f"a condition cannot use {', '.join(unknown)} here")
    names = [node["column_names"] for node in nodes_in(tree) if node.get("class") == "COLUMN_REF"]
    return frozenset(
        str(parts[1] if len(parts) > 1 and parts[0].lower() == "steps" else parts[0]).lower() for parts in names
    )


def _node(condition: str, written: str) -> dict[str, Any]:
    """The statement that has the condition as it is `written`. Raises BadQuery."""
    with connection() as db:
        try:
            statements = db.extract_statements(f"SELECT 1 FROM steps WHERE {written}")
            tree = parsed(db, statements[0].query) if len(statements) == 1 else None
        except duckdb.Error as error:
            raise BadQuery(str(error)) from error
    if not condition.strip() or tree is None or len(tree) != 1 or not _is_only_a_condition(tree[0]["node"]):
        raise BadQuery("a condition over the columns of one step is asked for: no subquery, no window, no other clause")
    node: dict[str, Any] = tree[0]["node"]
    return node


def _is_only_a_condition(node: dict[str, Any]) -> bool:
    source = node.get("from_table") or {}
    others = [
        node.get(name) for name in ("modifiers", "group_expressions", "group_sets", "having", "qualify", "sample")
    ]
    plain = node.get("type") == "SELECT_NODE" and source.get("type") == "BASE_TABLE" and not any(others)
    return plain and not node["cte_map"]["map"] and not any(map(_is_forbidden, nodes_in(node)))


def _is_forbidden(one: dict[str, Any]) -> bool:
    sized = one.get("class") == "TYPE" and str(one.get("type_name")).lower() == "array"
    return one.get("class") in _FORBIDDEN or one.get("type") == "TABLE_FUNCTION" or sized
