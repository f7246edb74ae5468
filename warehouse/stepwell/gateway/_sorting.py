"""The orders of lists that can be sorted, and pages of them: by one column's values and, among equals, by what tells rows apart.

Rows that have no value in the column come last in either direction, and none is skipped or given twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stepwell.gateway._cursor import is_storable, literal, opaque, said_in
from stepwell.gateway._problems import Problem

__all__ = ["Columns", "Order", "Scalar", "order_of"]

Scalar = str | int | float | None
Kind = Literal["text", "number"]
Columns = Mapping[str, tuple[str, Kind]]
"""What a list can be sorted by: names, and the expressions and kinds of their values."""

_NUL = "\0"
_NAME = "_sorted"
"""What the column's value is called in the answer of `Order.sql`."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order of a list."""

    name: str
    expression: str
    """Of the column's value."""
    kind: Kind
    descending: bool
    key: tuple[str, ...]
    """The columns that tell rows apart, in the same direction."""

    def sql(self, select: str, source: str, where: Sequence[str], after: Sequence[Scalar] | None, limit: int) -> str:
        """A page of the columns `select` and what the next one begins behind, with one row more, which tells whether there is one."""
        conditions = [*where, *([] if after is None else [self._behind(after)])]
        clause = f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""
        direction = "DESC" if self.descending else "ASC"
        keys = ", ".join(f'"{name}" {direction}' for name in self.key)
        return (
            f"SELECT {select}, {self.expression} AS {_NAME} FROM {source}{clause} "
            f"ORDER BY {_NAME} {direction} NULLS LAST, {keys} LIMIT {limit + 1}"
        )

    def cursor(self, row: Mapping[str, Any]) -> str:
        """Behind this row of the answer."""
        return opaque([self.name, row[_NAME], *(row[name] for name in self.key)])

    def after(self, cursor: str, kinds: Sequence[type[str] | type[int]]) -> list[Scalar]:
        """What stands in a cursor of this order. Raises Problem (422) for another one's."""
        parts = said_in(cursor)
        if len(parts) == 2 + len(kinds) and parts[0] == self.name and _fits(parts[1], self.kind):
            key: list[Scalar] = parts[1:]
            if [type(part) for part in key[1:]] == list(kinds) and all(map(is_storable, parts[2:])):
                return key
        raise Problem(422, "cursor: is none of this list's in this order; start again without one", field="cursor")

    def _behind(self, after: Sequence[Scalar]) -> str:
        value, key = after[0], after[1:]
        than, one = "<" if self.descending else ">", self.expression
        names = ", ".join(f'"{name}"' for name in self.key)
        among = f"({names}) {than} ({', '.join(_literal(part) for part in key)})"
        if value is None:
            return f"({one}) IS NULL AND {among}"
        told = _literal(value)
        return f"({one}) {than} {told} OR ({one}) IS NULL OR (({one}) = {told} AND {among})"


def order_of(sort: str, columns: Columns, key: Sequence[str]) -> Order:
    """The order that `sort` names: a column, with `-` before it the other way round. Raises Problem (422) for one that there is not."""
    name = sort.removeprefix("-")
    if name not in columns:
        raise Problem(422, f"sort: one of {', '.join(columns)}; with - before it from the greatest down", field="sort")
    return Order(sort, *columns[name], sort.startswith("-"), tuple(key))


def _fits(value: object, kind: Kind) -> bool:
    match value:
        case None:
            return True
        case str():
            return kind == "text" and is_storable(value.replace(_NUL, ""))
        case bool():
            return False
        case int():
            return kind == "number" and is_storable(value)
        case float():
            return kind == "number" and math.isfinite(value)
        case _:
            return False


def _literal(value: Scalar) -> str:
    """As SQL. A name that somebody gave may hold NUL, which no literal does."""
    assert value is not None
    if isinstance(value, str):
        return f"({' || chr(0) || '.join(literal(part) for part in value.split(_NUL))})"
    return f"CAST('{value!r}' AS DOUBLE)" if isinstance(value, float) else literal(value)
