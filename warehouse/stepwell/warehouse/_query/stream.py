"""Steps with whole prompts, a bounded number at a time.

Which steps, in which order, and what is resolved about them is asked in SQL first; then each chunk of them is read and restored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._query.view_of_steps import RESOLVED
from stepwell.warehouse._restore.read import matching, stored_of
from stepwell.warehouse._restore.whole import ENCODED, WHOLE, readable, restore_some
from stepwell.warehouse._tables.ledger import LedgerTable

_STEPS = 1024
_TRAJECTORIES = 200
_PROMPT_IDS = 16 << 20
"""Most steps, trajectories and token ids in one chunk; a single step may have more ids."""

_RESTORED = (*WHOLE, "response")
_LARGE = (
    "prompt_ops",
    "prompt_suffix",
    "messages_ops",
    "messages_suffix",
    "tools",
    "response_ids",
    "logprobs",
    "response",
)
"""Columns that nothing is resolved from."""
_KEYS = ("step_id", "trajectory_id", "prompt_length")


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
            if name not in there:
                raise InvalidRecord("columns", f"steps have no column {name!r}")
        self._dataset = dataset
        self._resolved = [name for name in RESOLVED if name in self.columns and name not in _RESTORED]

    @property
    def sql(self) -> str:
        """What to select from the view `steps`, for `stream`."""
        return ", ".join(f's."{name}"' for name in dict.fromkeys([*_KEYS, *self._resolved]))

    def stream(self, rows: pa.Table, payloads: Lookup) -> pa.RecordBatchReader:
        """The steps of `rows`, the answer to a query for `sql`, in their order."""
        return stream(self._dataset, rows, self.columns, self._resolved, payloads)


def rows_about(
    tables: Mapping[str, LedgerTable], step_ids: Sequence[str], *, shown: bool = False
) -> dict[str, pa.Table]:
    """The rows of `steps` of these ids, and of `events` whatever is about them: all that it takes to resolve them.

    `shown`: with all that the view `steps` shows, also what it takes nothing of.
    """
    steps, events = tables["steps"].dataset, tables["events"].dataset
    # A response that is shown is resolved by its payloads.
    left_out = set(ENCODED) - {"payload_ids"} if shown else _LARGE
    names = [name for name in steps.schema.names if name not in left_out]
    found = _filled(matching(steps, "step_id", step_ids, names), steps.schema)
    targets = {id_ for name in ("step_id", "trajectory_id", "response_id") for id_ in found[name].unique().to_pylist()}
    about = matching(events, "target_id", sorted(targets - {None}), events.schema.names)
    return {"steps": found, "events": about}


def rows_of(tables: Mapping[str, LedgerTable], trajectory_ids: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of `steps`, `events` and `exchanges` that the view `trajectories` makes these trajectories of, without texts and prompts."""
    steps, events, exchanges = (tables[name].dataset for name in ("steps", "events", "exchanges"))
    names = [name for name in steps.schema.names if name not in _LARGE or name == "response_ids"]
    found = _filled(matching(steps, "trajectory_id", trajectory_ids, names), steps.schema)
    about = matching(events, "target_id", [*trajectory_ids, *found["step_id"].to_pylist()], events.schema.names)
    lost = matching(exchanges, "trajectory_id", trajectory_ids, ["trajectory_id", "producer", "sequence"])
    return {"steps": found, "events": about, "exchanges": _filled(lost, exchanges.schema)}


def _filled(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With all columns, null where they were not read."""
    there = set(rows.column_names)
    return pa.table(
        [rows[field.name] if field.name in there else pa.nulls(len(rows), field.type) for field in schema], schema
    )


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

    `check` gets the rows of each chunk and what will be handed out of them. The table is read as it is now, whatever comes meanwhile.

    Raises:
        StoreError: while it is read, where a step is gone or cannot be restored.
    """

    def whole(part: pa.Table) -> pa.Table:
        steps = _read(dataset, part, [name for name in columns if name not in given], payloads)
        table = pa.table({name: (part if name in given else steps)[name] for name in columns})
        if check is not None:
            check(part, table)
        return table

    schema = whole(rows.slice(0, 0)).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for start, stop in _chunks(rows):
            yield from whole(rows.slice(start, stop - start)).cast(schema).combine_chunks().to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def _read(dataset: lance.LanceDataset, rows: pa.Table, columns: Sequence[str], payloads: Lookup) -> pa.Table:
    names = list(dict.fromkeys(["step_id", *columns]))
    stored = stored_of(dataset, rows["trajectory_id"].unique().to_pylist(), names)
    there = pc.SetLookupOptions(value_set=rows["step_id"].combine_chunks())
    wanted = pc.call_function("is_in", [stored["step_id"]], there).to_numpy().astype(np.bool_)
    whole = restore_some(stored, wanted, names, payloads)
    place = pc.call_function(
        "index_in", [rows["step_id"]], pc.SetLookupOptions(value_set=whole["step_id"].combine_chunks())
    )
    if place.null_count:
        gone = rows["step_id"].filter(place.is_null())
        raise StoreError(f"{len(gone)} steps are not in the warehouse any more, first {gone[0]}")
    return whole.take(place)


def _chunks(rows: pa.Table) -> Iterator[tuple[int, int]]:
    """Where each chunk begins and ends."""
    if not rows.num_rows:
        return
    codes = rows["trajectory_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    begun = np.cumsum(np.diff(codes, prepend=codes[0]) != 0)
    lengths = (
        rows["prompt_length"].fill_null(0) if "prompt_length" in rows.column_names else pa.repeat(0, rows.num_rows)
    )
    ids = np.cumsum(lengths.to_numpy().astype(np.int64))
    start = 0
    while start < rows.num_rows:
        before = ids[start - 1] if start else 0
        stop = min(
            start + _STEPS,
            int(np.searchsorted(begun, begun[start] + _TRAJECTORIES)),
            max(int(np.searchsorted(ids, before + _PROMPT_IDS, side="right")), start + 1),
        )
        yield start, stop
        start = stop
