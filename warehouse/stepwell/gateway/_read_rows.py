"""What every endpoint that reads works with: rows of a query, pages of a list, JSON texts as what they say."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import orjson
from fastapi import Query
from starlette.responses import Response

from stepwell.gateway._cursor import Key, key_of, literal, opaque
from stepwell.gateway._openapi import refusal
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = [
    "FOUND",
    "READ",
    "Cursor",
    "Filter",
    "KeyColumns",
    "Limit",
    "Order",
    "Rows",
    "equal",
    "not_found",
    "page_sql",
    "with_json",
]

Limit = Annotated[int, Query(ge=1, le=500, description="Most rows to return.")]
Cursor = Annotated[str | None, Query(max_length=4000, description="The `next` of the page before.")]
Filter = Annotated[str | None, Query(min_length=1, max_length=256)]

Order = Literal["newest", "oldest"]
"""Of a page: by falling or by rising keys."""
KeyColumns = Mapping[str, type[str] | type[int]]
"""The columns that a list is in the order of, which together tell its rows apart."""

_READING = 16
"""Most requests that read or wait to: they take turns, and none of them may take all threads from those that submit."""


READ: dict[int | str, dict[str, Any]] = {
    422: refusal("A parameter cannot be what it is."),
    503: refusal("The store cannot be read, or too many read at once: come again after Retry-After."),
}
FOUND: dict[int | str, dict[str, Any]] = READ | {404: refusal("There is none of this id.")}
"""Of an endpoint for one thing."""


class Rows:
    """Asks the warehouse, for a bounded number of requests at a time. Every call may block: call it in a thread."""

    def __init__(self, warehouse: LazyWarehouse) -> None:
        self.warehouse = warehouse
        self._free = threading.BoundedSemaphore(_READING)

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """The answer's rows.

        Raises:
            Problem: 503, where too many are reading.
            StoreError: the warehouse cannot be opened or read.
        """
        with self.turn():
            found = self.warehouse.query(sql)
        rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="lossy")
        return rows

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One of the requests that may read at once. Raises Problem: 503, where too many do."""
        if not self._free.acquire(blocking=False):
            raise Problem(503, f"more than {_READING} requests read at once: come again", headers={"retry-after": "1"})
        try:
            yield
        finally:
            self._free.release()

    def one(self, select: str, kind: str, id_: str) -> dict[str, Any]:
        """The row whose `<kind>_id` is `id_`. Raises as `ask` does, and Problem (404) where there is none."""
        found = self.ask(f"{select} WHERE {kind}_id = {literal(id_)}")
        if not found:
            raise not_found(kind, id_)
        return found[0]

    def page(
        self,
        select: str,
        where: Sequence[str],
        key: KeyColumns,
        *,
        cursor: str | None,
        limit: int,
        order: Order = "oldest",
    ) -> Response:
        """The answer to a request for a page. Raises as `ask` does, and Problem (422) for a cursor that is none of this list's."""
        after = None if cursor is None else key_of(cursor, list(key.values()))
        rows = self.ask(page_sql(select, where, list(key), after, order, limit))
        page = rows[:limit]
        following = opaque([page[-1][column] for column in key]) if len(rows) > limit else None
        return json_response({"items": page, "next": following})


def equal(**filters: str | None) -> list[str]:
    """A condition for each column whose value is asked for."""
    return [f"{column} = {literal(value)}" for column, value in filters.items() if value is not None]


def page_sql(
    select: str, where: Sequence[str], columns: Sequence[str], after: Key | None, order: Order, limit: int
) -> str:
    """One page and one row more, which tells whether there is another page. `after`: the first columns' values to begin behind."""
    names = [f'"{column}"' for column in columns]
    conditions = list(where)
    if after is not None:
        values = ", ".join(literal(part) for part in after)
        conditions.append(f"({', '.join(names[: len(after)])}) {'<' if order == 'newest' else '>'} ({values})")
    clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    direction = "DESC" if order == "newest" else "ASC"
    ordering = ", ".join(f"{name} {direction}" for name in names)
    return f"{select}{clause} ORDER BY {ordering} LIMIT {limit + 1}"


def with_json(row: dict[str, Any], columns: Collection[str]) -> dict[str, Any]:
    """The row with the JSON texts of these columns as what they say, to the last digit."""
    return {name: _said(value) if name in columns else value for name, value in row.items()}


def _said(text: object) -> object:
    if not isinstance(text, str):
        return text
    try:
        orjson.loads(text)
    except ValueError:  # half a surrogate pair, or deeper than any reader goes: shown as the text that it is
        return text
    return orjson.Fragment(text)


def not_found(kind: str, name: str) -> Problem:
    """404, and what to do."""
    hint = (
        "GET /api/v1/datasets lists them"
        if kind == "dataset"
        else "what was accepted lately can be read once ingest has committed it, which POST /api/v1/flush waits for"
    )
    return Problem(404, f"there is no {kind} {name!r:.300} in the warehouse; {hint}")
