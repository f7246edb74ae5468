"""Whole prompts, messages, tools and responses as functions of SQL: restored for the rows that a query really looks at.

They are called for two thousand rows at a time. What is whole of these is in memory at once, and nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import StoreError
from stepwell.warehouse._encode.payloads import resolved
from stepwell.warehouse._restore.bases import Places
from stepwell.warehouse._restore.passing import Passing
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._restore.whole import restore_rows
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.numbers import as_arrow

_TYPES = {"prompt_ids": "INTEGER[]", "messages": "VARCHAR", "tools": "VARCHAR"}


class WholeInSql:
    """The functions of one query: `_whole_<column>(step_id, trajectory_id)` for each of `columns`, and `_whole_response`.

    As a context it lets errors of the store through, which DuckDB would report as its own.
    """

    def __init__(self, tables: Mapping[str, LedgerTable], columns: Sequence[str]) -> None:
        self._payloads = Payloads(lambda: tables["payloads"].dataset)
        self.columns = list(columns)
        self._lock = Lock()
        self._stored = Passing(tables["steps"].dataset, ["step_id", *columns])
        self._error: StoreError | None = None

    def register(self, db: duckdb.DuckDBPyConnection) -> None:
        """Make the functions known to a connection, until this is left as a context."""
        self._db = db
        # "special": a step may have no prompt ids, or no tools.
        how: dict[str, Any] = {"type": "arrow", "null_handling": "special"}
        for name in self.columns:
            db.create_function(f"_whole_{name}", self._function(name), ["VARCHAR", "VARCHAR"], _TYPES[name], **how)
        db.create_function("_whole_response", self._responses, ["VARCHAR", "VARCHAR[]"], "VARCHAR", **how)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in (*self.columns, "response"):
            self._db.remove_function(f"_whole_{name}")
        if self._error is not None and isinstance(error, duckdb.Error):
            raise self._error from None

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self._error = error
            raise

    def _function(self, name: str) -> Callable[[pa.ChunkedArray, pa.ChunkedArray], pa.Array]:
        kind = pa.list_(pa.int32()) if name == "prompt_ids" else pa.string()

        def column(step_ids: pa.ChunkedArray, trajectory_ids: pa.ChunkedArray) -> pa.Array:
            with self._lock, self._noted():
                asked, places, parts = step_ids.combine_chunks(), [np.zeros(0, np.int64)], [pa.array([], kind)]
                for stored in self._stored.stored(trajectory_ids.unique().drop_null()):
                    place, part = self._whole(stored, asked, name)
                    places.append(place)
                    parts.append(part.cast(kind).combine_chunks())
                return pa.concat_arrays(parts).take(_inverse(np.concatenate(places), len(asked)))

        return column

    def _whole(self, stored: pa.Table, step_ids: pa.Array, name: str) -> tuple[Places, pa.ChunkedArray]:
        """Which of the steps, by their places, are among the stored rows, and that column of them."""
        there = pc.SetLookupOptions(value_set=stored["step_id"].combine_chunks())
        row = pc.fill_null(pc.call_function("index_in", [step_ids], there), -1).to_numpy().astype(np.int64)
        place = np.flatnonzero(row >= 0)
        different, again = np.unique(row[place], return_inverse=True)
        whole = restore_rows(stored, different, [name], self._payloads)[name]
        return place, whole if len(different) == len(place) and (np.diff(again) == 1).all() else whole.take(
            as_arrow(again)
        )

    def _responses(self, texts: pa.ChunkedArray, payload_ids: pa.ChunkedArray) -> pa.Array:
        with self._noted():
            payloads = self._payloads(pc.call_function("list_flatten", [payload_ids]).unique().to_pylist())
            return pa.array([_whole_response(text, payloads) for text in texts.to_pylist()], pa.string())


def _inverse(places: Places, count: int) -> pa.Array:
    """Where each of so many is among those at `places`; null for one that is not."""
    found = np.full(count, -1, np.int64)
    found[places] = np.arange(len(places))
    return pc.call_function("if_else", [as_arrow(found >= 0), as_arrow(found), pa.scalar(None, pa.int64())])


def _whole_response(text: str | None, payloads: Mapping[str, bytes]) -> str | None:
    try:
        return None if text is None else resolved(orjson.loads(text), payloads)
    except KeyError as error:
        raise StoreError(f"payload {error.args[0]}, which a response refers to, is not there") from error
