"""Whole prompts, messages, tools and responses as functions of SQL: restored for the rows that a query really looks at.

A query that looks at few steps reads their trajectories; from some thousand on everything is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Any, Self

import duckdb
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import StoreError
from stepwell.warehouse._encode.payloads import resolved
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._restore.read import by_id, whole_steps
from stepwell.warehouse._tables.ledger import LedgerTable

_FEW = 4096
"""Steps that are read by their ids."""

_TYPES = {"prompt_ids": "INTEGER[]", "messages": "VARCHAR", "tools": "VARCHAR"}


class WholeInSql:
    """The functions of one query: `_whole_<column>(step_id)` for each of `columns`, and `_whole_response`.

    As a context it lets errors of the store through, which DuckDB would report as its own.
    """

    def __init__(self, tables: Mapping[str, LedgerTable], columns: Sequence[str]) -> None:
        self._steps = tables["steps"].dataset
        self._payloads = Payloads(lambda: tables["payloads"].dataset)
        self._columns = list(columns)
        self._lock = Lock()
        self._asked = 0
        ids = pa.array([], pa.string())
        self._read = pa.table({"step_id": ids}), ids
        self._error: StoreError | None = None

    def register(self, db: duckdb.DuckDBPyConnection) -> None:
        """Make the functions known to a connection, until this is left as a context."""
        self._db = db
        # "special": a step may have no prompt ids, or no tools.
        how: dict[str, Any] = {"type": "arrow", "null_handling": "special"}
        for name in self._columns:
            db.create_function(f"_whole_{name}", self._function(name), ["VARCHAR"], _TYPES[name], **how)
        db.create_function("_whole_response", self._responses, ["VARCHAR", "VARCHAR[]"], "VARCHAR", **how)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in (*self._columns, "response"):
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

    def _function(self, name: str) -> Callable[[pa.ChunkedArray], pa.Array]:
        def column(step_ids: pa.ChunkedArray) -> pa.Array:
            with self._lock, self._noted():
                read, ids = self._fetched(step_ids)
                found = read[name].take(pc.call_function("index_in", [step_ids], pc.SetLookupOptions(value_set=ids)))
                return found.cast(pa.list_(pa.int32()) if name == "prompt_ids" else pa.string()).combine_chunks()

        return column

    def _fetched(self, step_ids: pa.ChunkedArray) -> tuple[pa.Table, pa.Array]:
        """A table that has these steps. The functions of one query are asked for the same ones in turn, so it is kept for a while."""
        there = pc.call_function("is_in", [step_ids], pc.SetLookupOptions(value_set=self._read[1]))
        if False in there.to_pylist():
            self._asked += len(step_ids)
            if self._asked <= _FEW:
                wanted = step_ids.unique().to_pylist()
                read = by_id(self._steps, wanted, ["step_id", *self._columns], payloads=self._payloads)
            else:
                read = whole_steps(self._steps, payloads=self._payloads)
            self._read = read, read["step_id"].combine_chunks()
        return self._read

    def _responses(self, texts: pa.ChunkedArray, payload_ids: pa.ChunkedArray) -> pa.Array:
        with self._noted():
            payloads = self._payloads(pc.call_function("list_flatten", [payload_ids]).unique().to_pylist())
            return pa.array([_whole_response(text, payloads) for text in texts.to_pylist()], pa.string())


def _whole_response(text: str | None, payloads: Mapping[str, bytes]) -> str | None:
    try:
        return None if text is None else resolved(orjson.loads(text), payloads)
    except KeyError as error:
        raise StoreError(f"payload {error.args[0]}, which a response refers to, is not there") from error
