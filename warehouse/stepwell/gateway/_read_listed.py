"""Pages of lists that are filtered and sorted: ids and orders by the listing, what is shown by the warehouse; and how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import BaseModel, Field

from stepwell.gateway._cursor import literal
from stepwell.gateway._filters import Meant, StepFilters
from stepwell.gateway._listing import Listing
from stepwell.gateway._problems import Problem
from stepwell.gateway._read_rows import KeyColumns, Rows
from stepwell.gateway._sorting import Order

__all__ = ["OVER_SUMMARIES", "Listed", "Paging", "Source", "parts"]

OVER_SUMMARIES = Meant([], summaries=True)
"""All rows of `trajectories` and `groups`."""

_AT_ONCE = 200
"""Ids that the warehouse finds by its index."""
_COUNTS = 64
"""Counts that are remembered: whoever pages through a list asks for the same one each time."""


class Paging(BaseModel):
    """What is asked of any list."""

    limit: int = Field(default=100, ge=1, le=500, description="Most rows to return.")
    cursor: str | None = Field(default=None, max_length=4000, description="The `next` of the page before.")
    count: bool = Field(default=False, description="Say how many there are, too.")


class Filters(Protocol):
    """`StepFilters` and the like."""

    def meant(self, listing: Listing) -> Meant: ...


@dataclass(frozen=True, slots=True)
class Source:
    """A list: its table in the listing, the key of its rows, and how they are read by the values of `id`. Without `select` they are
    shown as the listing has them."""

    table: str
    key: KeyColumns
    id: str
    select: str | None = None


class Listed:
    """Any thread. Every call may block."""

    def __init__(self, rows: Rows, listing: Listing) -> None:
        self.rows, self.listing = rows, listing
        self._counts: dict[tuple[object, ...], dict[str, Any]] = {}

    def page(
        self, source: Source, meant: Meant, order: Order, *, cursor: str | None, limit: int, count: bool
    ) -> dict[str, Any]:
        """`items`, `next`, and with `count` how many there are.

        Raises:
            Problem: 422 for a condition that cannot be worked out and for another list's cursor; 503 where too many read.
            StoreError: the warehouse cannot be opened or read.
        """
        after = None if cursor is None else order.after(cursor, list(source.key.values()))
        columns = (
            "*" if source.select is None else ", ".join(f'"{name}"' for name in dict.fromkeys([*source.key, source.id]))
        )
        found = self.ask(order.sql(columns, source.table, meant.conditions, after, limit), meant)
        page = found[:limit]
        following = order.cursor(page[-1]) if len(found) > limit else None
        answer: dict[str, Any] = {"items": self._shown(source, page), "next": following}
        return {**answer, "count": self.count(source.table, meant)} if count else answer

    def meant(self, filters: Filters) -> Meant:
        """The conditions that filters stand for. To find them takes a turn, as it may search.

        Raises:
            Problem: 422, a filter cannot be what it is; 503 where too many read.
            StoreError: the warehouse cannot be opened or read.
        """
        with self.rows.turn():
            return filters.meant(self.listing)

    def over_view(self, filters: StepFilters) -> str:
        """The same over the warehouse's view `steps`. Raises as `meant` does."""
        with self.rows.turn():
            return filters.over_view(self.listing)

    def count(self, table: str, meant: Meant) -> dict[str, Any]:
        """How many rows there are at the newest commit, and when they were counted."""
        clause = "".join(f" AND ({one})" for one in meant.conditions)
        with self.rows.turn():
            key = (*self.listing.current(), table, clause)
        # These tables are no part of the key, and a condition that somebody wrote may be about the time.
        lasting = not meant.within and not meant.written
        if lasting and (known := self._counts.get(key)) is not None:
            return known
        at = datetime.now(UTC)
        [row] = self.ask(f"SELECT count(*) AS many FROM {table} WHERE true{clause}", meant)
        counted = {"count": row["many"], "exact": meant.exact, "at": at}
        if lasting:
            self._counts = dict(list({**self._counts, key: counted}.items())[-_COUNTS:])
        return counted

    def ask(self, sql: str, meant: Meant | None = None) -> list[dict[str, Any]]:
        """The rows of an answer of the listing. Raises as `page` does."""
        import duckdb

        meant = meant or Meant([])
        try:
            with self.rows.turn():
                found = self.listing.ask(sql, summaries=meant.summaries, within=meant.within)
        except duckdb.Error as error:
            if not meant.written:
                raise
            raise Problem(422, f"where: {str(error).splitlines()[0]}", field="where") from error
        rows: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="lossy")
        return rows

    def _shown(self, source: Source, page: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        if source.select is None:
            return [{name: value for name, value in row.items() if not name.startswith("_")} for row in page]
        ids = [row[source.id] for row in page]
        asked = (f"{source.select} WHERE {source.id} IN ({', '.join(map(literal, some))})" for some in parts(ids))
        there = {row[source.id]: row for sql in asked for row in self.rows.ask(sql)}
        if len(there) < len(ids):
            self.listing.stale()  # some were forgotten since
        return [there[id_] for id_ in ids if id_ in there]


def parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """The ids, so many at a time as the warehouse finds by its index."""
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
