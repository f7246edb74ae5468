"""Steps with whole prompts, a bounded number at a time.

Which steps, in which order, and what is resolved about them is asked in SQL first; then each chunk of them is read and restored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._query.view_of_steps import RESOLVED
from stepwell.warehouse._restore.bases import pieces
from stepwell.warehouse._restore.read import stored_names
from stepwell.warehouse._restore.trajectories import Trajectories
from stepwell.warehouse._restore.whole import BATCH_BYTES, BESIDE, WHOLE, readable, restore_rows, weights
from stepwell.warehouse._tables.numbers import as_arrow
from stepwell.warehouse._tables.table import guarded

_STEPS = 4096
"""Most steps in one batch."""
_STORED_BYTES = 32 << 20
"""About what is read at a time, as it is stored."""
_TRAJECTORIES = 32
"""Of so many, first of all: how much is stored of one is not known yet."""
_LISTED = 200
"""So many are found with one look at an index."""

_RESTORED = (*WHOLE, "response")
_KEYS = ("step_id", "trajectory_id")


class Selection:
    """The columns that a reader wants: which of them SQL resolves, and which are read as they are stored."""

    def __init__(self, dataset: lance.LanceDataset, columns: Sequence[str] | None) -> None:
        """`columns` in this order, or all that there are.

        Raises:
            InvalidRecord: steps have no such column.
        """
        there = list(dict.fromkeys([*readable(dataset.schema.names), *RESOLVED]))
        self.columns = there if columns is None else list(dict.fromkeys(columns))
        for name in self.columns:
            if name not in (*there, *BESIDE):
                raise InvalidRecord("columns", f"steps have no column {name!r}")
        self._dataset = dataset
        self._resolved = [name for name in RESOLVED if name in self.columns and name not in _RESTORED]

    @property
    def names(self) -> list[str]:
        """The columns to select from the view `steps`, for `stream`."""
        return list(dict.fromkeys([*_KEYS, *self._resolved]))

    @property
    def sql(self) -> str:
        """The same, as it is written."""
        return ", ".join(f's."{name}"' for name in self.names)

    def stream(self, rows: pa.Table, payloads: Lookup) -> pa.RecordBatchReader:
        """The steps of `rows`, the answer to a query for `sql`, in their order."""
        return stream(self._dataset, rows, self.columns, self._resolved, payloads)

    def restored(self, rows: pa.Table, payloads: Lookup) -> pa.RecordBatchReader:
        """The same of any `rows` with `step_id` and `trajectory_id`.

        Raises:
            InvalidRecord: a column has to be resolved.
        """
        if self._resolved:
            raise InvalidRecord("columns", f"{self._resolved[0]!r} is resolved by a query, and not stored")
        return stream(self._dataset, rows, self.columns, _KEYS, payloads)


def in_order_of(rows: pa.Table, step_ids: Sequence[str]) -> pa.Table:
    """Those of `rows` that have one of these ids, in the order of these, each as often as it is among them."""
    there = pc.SetLookupOptions(value_set=rows["step_id"].combine_chunks())
    return rows.take(pc.call_function("index_in", [pa.array(step_ids, pa.string())], there).drop_null())


def stream(
    dataset: lance.LanceDataset,
    rows: pa.Table,
    columns: Sequence[str],
    given: Collection[str],
    payloads: Lookup,
    check: Callable[[pa.Table, pa.Table], None] | None = None,
) -> pa.RecordBatchReader:
    """The steps of `rows` (with `step_id`, `trajectory_id` and whatever is `given`) in that order, with `columns`; whole prompts and all.

    A batch weighs about `BATCH_BYTES` without its payloads, or as much as its one step. `check` gets the rows of each batch and what
    will be handed out of them. The table is read as it is now, whatever comes meanwhile.

    Raises:
        StoreError: while it is read, where a step is gone or cannot be restored.
    """
    known = {*given, *_KEYS}
    names = ["step_id", *(name for name in columns if name not in known)]

    def made(part: pa.Table, steps: pa.Table) -> pa.Table:
        table = pa.table({name: (part if name in known else steps)[name] for name in columns})
        if check is not None:
            check(part, table)
        return table

    nothing = dataset.schema.empty_table().select(stored_names(dataset, names))
    schema = made(rows.slice(0, 0), _Part(rows.slice(0, 0), nothing, names).whole(0, 0, payloads)).schema

    def batches() -> Iterator[pa.RecordBatch]:
        if len(names) == 1:  # nothing is asked for that is not known
            yield from made(rows, rows).cast(schema).to_batches(_STEPS)
            return
        for part in _parts(dataset, rows, names):
            for start, stop in part.pieces():
                table = made(part.rows.slice(start, stop - start), part.whole(start, stop, payloads))
                yield from table.cast(schema).combine_chunks().to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _parts(dataset: lance.LanceDataset, rows: pa.Table, columns: Sequence[str]) -> Iterator[_Part]:
    """All of `rows`: those of as many trajectories at a time as take about `_STORED_BYTES`."""
    if not rows.num_rows:
        return
    coded = rows["trajectory_id"].combine_chunks().dictionary_encode()
    codes = coded.indices
    begun = np.cumsum(np.diff(codes.to_numpy(), prepend=-1) != 0)
    trajectories = guarded(dataset.uri, Trajectories, dataset, coded.dictionary, columns)
    start, many = 0, _TRAJECTORIES
    while start < rows.num_rows:
        stop = int(np.searchsorted(begun, begun[start] + many))
        wanted = codes.slice(start, stop - start).unique().to_numpy()
        stored = guarded(dataset.uri, trajectories.read, wanted).combine_chunks()
        yield _Part(rows.slice(start, stop - start), stored, columns)
        start, many = stop, max(1, min(2 * many, many * _STORED_BYTES // max(stored.nbytes, 1), _LISTED))


class _Part:
    """Some of the rows, what is `stored` of their trajectories, and the `columns` to be restored."""

    def __init__(self, rows: pa.Table, stored: pa.Table, columns: Sequence[str]) -> None:
        """
        Raises:
            StoreError: a step is not there.
        """
        self.rows, self._stored, self._columns = rows, stored, columns
        there = pc.SetLookupOptions(value_set=stored["step_id"].combine_chunks())
        place = pc.call_function("index_in", [rows["step_id"]], there)
        if place.null_count:
            gone = rows["step_id"].filter(place.is_null())
            raise StoreError(f"{len(gone)} steps are not in the warehouse any more, first {gone[0]}")
        self._places = place.to_numpy().astype(np.int64)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Borders of what makes a batch."""
        whole = weights(self._stored, self._columns)[self._places]
        return pieces(np.maximum(whole, BATCH_BYTES // _STEPS), BATCH_BYTES)

    def whole(self, start: int, stop: int, payloads: Lookup) -> pa.Table:
        """The steps from row `start` up to `stop`, whole."""
        different, again = np.unique(self._places[start:stop], return_inverse=True)
        if len(different) == stop - start:
            return restore_rows(self._stored, self._places[start:stop], self._columns, payloads)
        return restore_rows(self._stored, different, self._columns, payloads).take(as_arrow(again))
