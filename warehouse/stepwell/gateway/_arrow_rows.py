"""The steps of an Arrow stream: tokens looked at as a whole, everything else by a `Step`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord
from stepwell.gateway._arrow import batches_in
from stepwell.gateway._body import Body, parsed
from stepwell.gateway._problems import Problem
from stepwell.gateway._records import Checked, NewId, named, refused
from stepwell.gateway._rows import JSON, LEAST_LOGPROB, LISTS, TIMES, Array, row_with
from stepwell.sdk.records import MAX_IDS, MAX_LOGPROB, Step, checked

__all__ = ["rows_in"]

Found = Array | InvalidRecord | None
"""The list of one row, or what is wrong with it."""


def rows_in(body: Body, most: int, new_id: NewId) -> list[Checked]:
    """The steps of a stream, each checked by itself. Raises Problem as `batches_in` does."""
    return [row for batch in batches_in(body, most) for row in _rows(batch, new_id)]


def _rows(batch: pa.RecordBatch, new_id: NewId) -> list[Checked]:
    names = [name for name in batch.schema.names if name not in LISTS]
    rows: list[dict[str, Any]] = [{} for _ in range(batch.num_rows)]
    for name in names:
        for row, value in zip(rows, _values(name, batch[name]), strict=True):
            if value is not None:
                row[name] = value
    lists = zip(*(_lists(batch, name) for name in LISTS), strict=True)
    return [_row(values, found, new_id) for values, found in zip(rows, lists, strict=True)]


def _row(values: dict[str, Any], found: tuple[Found, ...], new_id: NewId) -> Checked:
    """One token stands for all of them, and none for none: a `Step` then sees what is there and what is not."""
    try:
        lists = tuple(_right(one) for one in found)
        for value in values.values():
            if isinstance(value, InvalidRecord):
                raise value
        _check_lengths(*lists[1:])
        few = {name: [0] * min(1, len(one)) for name, one in zip(LISTS, lists, strict=True) if one is not None}
        return row_with(checked(Step, named("step", {**values, **few}, new_id)), lists, whole=False)
    except InvalidRecord as error:
        return refused("step", values, error)


def _check_lengths(response: Array | None, logprobs: Array | None) -> None:
    said = 0 if response is None else len(response)
    if logprobs is not None and len(logprobs) != said:
        raise InvalidRecord("logprobs", f"{len(logprobs)} of them for {said} response_ids; leave out or give all")


def _right(found: Found) -> Array | None:
    if isinstance(found, InvalidRecord):
        raise found
    return found


def _values(name: str, column: pa.Array) -> list[Any]:
    """A column's values, with an InvalidRecord in the place of one that cannot be read."""
    if name in TIMES and not pa.types.is_null(column.type):
        column = column.cast(pa.timestamp("us", "UTC"), safe=column.type.unit != "ns")
    elif name not in JSON:
        values: list[Any] = column.to_pylist()
        return values
    return [_value(name, value) for value in column]


def _value(name: str, value: pa.Scalar) -> Any:
    try:
        said = value.as_py()
        return parsed(said.encode()) if name in JSON and said is not None else said
    except (Problem, ValueError, OverflowError) as error:
        return InvalidRecord(name, f"cannot be read: {error}")


def _lists(batch: pa.RecordBatch, name: str) -> list[Found]:
    if name not in batch.schema.names or pa.types.is_null(batch[name].type):
        return [None] * batch.num_rows
    column = batch[name]
    lengths = pc.fill_null(pc.call_function("list_value_length", [column]).cast(pa.int64()), -1).to_numpy()
    items, bad = _items(name, column.flatten())  # of rows that are there, and of this slice only
    ends = np.cumsum(np.maximum(lengths, 0))
    lists: list[Found] = [
        None if length < 0 else items[end - length : end]
        for length, end in zip(lengths.tolist(), ends.tolist(), strict=True)
    ]
    for place in reversed(np.flatnonzero(bad).tolist()):  # the first of a row is said last, and stays
        row = int(np.searchsorted(ends, place, side="right"))
        lists[row] = _fault(name, place - int(ends[row] - lengths[row]))
    for row in np.flatnonzero(lengths > MAX_IDS).tolist():
        lists[row] = InvalidRecord(name, f"has {lengths[row]} items; at most {MAX_IDS} are taken")
    return lists


def _items(name: str, items: pa.Array) -> tuple[Array, Array]:
    """The items of all rows, and which of them are wrong."""
    absent = items.is_null().to_numpy(zero_copy_only=False)
    values = pc.fill_null(items, 0).to_numpy()
    least, most = (LEAST_LOGPROB, MAX_LOGPROB) if name == "logprobs" else (0, 2**31 - 1)
    bad = ~((values >= least) & (values <= most)) | absent  # NaN is neither
    return (np.where(bad, 0, values) if bad.any() else values).astype(LISTS[name], copy=False), bad


def _fault(name: str, index: int) -> InvalidRecord:
    what = "no finite logarithm of a probability" if name == "logprobs" else "no token id from 0 to 2147483647"
    return InvalidRecord(f"{name}[{index}]", f"is {what}")
