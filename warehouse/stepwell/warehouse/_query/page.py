"""Which statements need only some rows of a table: those for a page, and those about one trajectory, step or target of events.

A statement that is not understood is none of these, and is answered from all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stepwell.warehouse._query.asked import nodes_in

Key = tuple[int, str, int]

_TABLES = ("steps", "events", "feedback")
_ORDER = ("commit", "producer", "sequence")
_IDS = {"steps": "step_id", "events": "event_id", "feedback": "event_id"}
_ABOUT = {
    "steps": ("step_id", "trajectory_id", "response_id"),
    "events": ("event_id", "target_id"),
    "feedback": ("target_id",),
}
"""The columns that rows are found by. What counts of feedback is told by all that was said about the same target."""
_LONGEST = 1000
_LISTED = 200
_FORBIDDEN = {"SUBQUERY", "WINDOW"}


@dataclass(frozen=True, slots=True)
class Page:
    """The first `limit` rows in an order that begins with the order of commit; of those after `beyond`, where that is given."""

    table: str
    limit: int
    order: Literal["newest", "oldest"]
    keys: int
    """By how many of commit, producer and sequence the statement orders. 0: any rows will do."""
    beyond: Key | None = None
    """No row before this one, in that order, fits the statement."""
    since: int | None = None
    """No row of this commit or an earlier one fits."""


@dataclass(frozen=True, slots=True)
class About:
    """Rows of the table with one of these values in this column, and no others."""

    table: str
    column: str
    values: tuple[str, ...]


def understood(tree: Any) -> Page | About | None:
    """What a statement needs, from its tree."""
    if not isinstance(tree, list) or len(tree) != 1:
        return None
    node = tree[0]["node"]
    source = node.get("from_table") or {}
    table = source.get("table_name")
    if node.get("type") != "SELECT_NODE" or source.get("type") != "BASE_TABLE" or table not in _TABLES:
        return None
    if (
        node["cte_map"]["map"]
        or source["sample"]
        or source["schema_name"]
        or source["column_name_alias"]
        or node["sample"]
    ):
        return None
    where = list(_conjuncts(node["where_clause"]))
    if any(
        one.get("class") in _FORBIDDEN for part in (where, node["qualify"], node["modifiers"]) for one in nodes_in(part)
    ):
        return None
    if any(one.get("class") == "SUBQUERY" for one in nodes_in(node["select_list"])):
        return None
    if (about := _about(table, where, source["alias"] or table)) is not None:
        return about
    return _page(node, table, where, source["alias"] or table)


def _about(table: str, where: list[dict[str, Any]], alias: str) -> About | None:
    for part in where:
        for one, others in _equal(part):
            column, values = _column(one, alias), [_constant(other) for other in others]
            if column is not None and column in _ABOUT[table] and len(values) <= _LISTED:
                texts = tuple(value for value in values if isinstance(value, str))
                if len(texts) == len(values):
                    return About(table, column, texts)
    return None


def _equal(part: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """What is said to be one of what: `a = b` both ways round, `a IN (b, c)`."""
    if part.get("type") == "COMPARE_EQUAL":
        yield part["left"], [part["right"]]
        yield part["right"], [part["left"]]
    elif part.get("type") == "COMPARE_IN" and part.get("class") == "OPERATOR":
        yield part["children"][0], part["children"][1:]


def _page(node: dict[str, Any], table: str, where: list[dict[str, Any]], alias: str) -> Page | None:
    modifiers = {one["type"]: one for one in node["modifiers"]}
    if not modifiers.keys() <= {"ORDER_MODIFIER", "LIMIT_MODIFIER"} or node["group_expressions"] or node["having"]:
        return None
    plain = all(one["class"] == "COLUMN_REF" or _star(one) for one in node["select_list"])
    bound = modifiers.get("LIMIT_MODIFIER")
    if not plain or node["qualify"] or bound is None or bound["limit_type"] != "ROW_COUNT" or bound["offset"]:
        return None
    limit = _constant(bound["limit"])
    orders = modifiers["ORDER_MODIFIER"]["orders"] if "ORDER_MODIFIER" in modifiers else []
    renamed = any(one["alias"].lower() in (*_ORDER, _IDS[table]) for one in node["select_list"])
    if not isinstance(limit, int) or not 0 < limit <= _LONGEST or renamed:
        return None
    return _ordered(table, limit, orders, where, alias)


def _ordered(
    table: str, limit: int, orders: list[dict[str, Any]], where: list[dict[str, Any]], alias: str
) -> Page | None:
    columns = [_column(one["expression"], alias) for one in orders]
    if any(one["type"] not in ("DESCENDING", "ASCENDING", "ORDER_DEFAULT") for one in orders):
        return None
    keys = 0
    while keys < len(_ORDER) and keys < len(columns) and columns[keys] == _ORDER[keys]:
        keys += 1
    if orders and (table == "feedback" or not keys or len({one["type"] == "DESCENDING" for one in orders[:keys]}) > 1):
        return None
    order: Literal["newest", "oldest"] = "newest" if not orders or orders[0]["type"] == "DESCENDING" else "oldest"
    beyond = next((key for part in where if (key := _beyond(part, order, alias)) is not None), None)
    since = next((number for part in where if (number := _since(part, alias)) is not None), None)
    return Page(table, limit, order, keys, beyond if keys else None, since)


def _beyond(part: dict[str, Any], order: str, alias: str) -> Key | None:
    """The key in `(commit, producer, sequence, …) < (…)`."""
    if part.get("type") != ("COMPARE_LESSTHAN" if order == "newest" else "COMPARE_GREATERTHAN"):
        return None
    sides = [part["left"], part["right"]]
    if any(side.get("class") != "FUNCTION" or side.get("function_name") != "row" for side in sides):
        return None
    names, values = ([one["expression"] for one in side["arguments"]] for side in sides)
    if len(values) < len(_ORDER) or tuple(_column(one, alias) for one in names[:3]) != _ORDER:
        return None
    commit, producer, sequence = (_constant(one) for one in values[:3])
    if isinstance(commit, int) and isinstance(producer, str) and isinstance(sequence, int):
        return commit, producer, sequence
    return None


def _since(part: dict[str, Any], alias: str) -> int | None:
    """The number in `commit > 5`."""
    if part.get("type") != "COMPARE_GREATERTHAN" or _column(part["left"], alias) != "commit":
        return None
    number = _constant(part["right"])
    return number if isinstance(number, int) else None


def _conjuncts(where: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if where is not None and where.get("type") == "CONJUNCTION_AND":
        for child in where["children"]:
            yield from _conjuncts(child)
    elif where is not None:
        yield where


def _column(node: Mapping[str, Any], alias: str) -> str | None:
    names = [str(name).lower() for name in node["column_names"]] if node.get("class") == "COLUMN_REF" else []
    if len(names) == 2 and names[0] == alias.lower():
        names = names[1:]
    return names[0] if len(names) == 1 else None


def _constant(node: Mapping[str, Any]) -> str | int | None:
    literal = node.get("literal") if node.get("class") == "CONSTANT" else None
    if not isinstance(literal, dict):
        return None
    kind, text = literal.get("kind"), str(literal.get("text"))
    return text if kind == "STRING" else int(text) if kind == "INTEGER" else None


def _star(node: Mapping[str, Any]) -> bool:
    return bool(
        node.get("class") == "STAR"
        and not node["columns"]
        and not node["replace_list"]
        and not node["rename_list"]
        and not node["expr"]
    )
