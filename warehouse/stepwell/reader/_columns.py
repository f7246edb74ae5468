"""Arrow list columns → one flat numpy array and its row offsets, with nothing dropped or padded on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, I64, Array, offsets_of

Namer = Callable[[int], str]
"""Row number → how errors name it, as in `step 41 (row 3)`."""


def flatten(field: str, column: Any, value_type: pa.DataType, name: Namer, *, nulls: bool = False) -> tuple[Array, I64]:
    """Flat values and i64 offsets [N+1] of a list column; no copy when the values have `value_type` already.

    Args:
        field: What errors call the column.
        column: An Arrow (large) list array or chunked array, sliced or not.
        value_type: Type of the elements. Others are cast when every value survives (int64 ids that fit int32).
        name: Names a row in errors.
        nulls: Accept a null row as an empty one. A null *inside* a row is never accepted: it would shift
            what follows against its ids.

    Raises:
        InvalidRecord: The column is not a list, holds nulls, or holds values that do not fit.
    """
    lists = _as_large_lists(field, column, value_type)
    if lists.null_count and not nulls:
        row = int(pc.index(lists.is_null(), True).as_py())
        raise InvalidRecord(field, f"{name(row)} has none")
    offsets = offsets_of(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    values = lists.flatten()
    if values.null_count:
        at = int(pc.index(values.is_null(), True).as_py())
        raise InvalidRecord(field, f"{name(row_of(offsets, at))} holds a null among its values")
    try:
        cast = values.cast(value_type)
    except pa.ArrowException as error:
        bounds = zip(offsets[:-1].tolist(), np.diff(offsets).tolist(), strict=True)
        row = _first_failure(bounds, lambda bound: values.slice(*bound).cast(value_type))
        raise InvalidRecord(field, f"{name(row)} cannot be read as {value_type}: {error}") from error
    return cast.to_numpy(zero_copy_only=False), offsets


def join_rows(prompts: I32, prompt_offsets: I64, responses: I32, response_offsets: I64) -> tuple[I32, I64]:
    """prompt ++ response of every row as flat tokens and offsets [N+1].

    As bytes, because Arrow's kernel copies whole rows where numpy indexing would copy token by token.
    """
    rows = [binary_view(prompts, prompt_offsets), binary_view(responses, response_offsets)]
    joined = pc.call_function("binary_join_element_wise", [*rows, pa.scalar(b"", pa.large_binary())])
    offsets = prompt_offsets + response_offsets
    tokens = np.frombuffer(joined.buffers()[2], np.int32, int(offsets[-1])) if offsets[-1] else np.zeros(0, np.int32)
    return tokens, offsets


def binary_view(tokens: I32, offsets: I64) -> pa.LargeBinaryArray:
    """Rows of int32 tokens as Arrow binary values, without copying the tokens."""
    buffers = [None, pa.py_buffer(offsets * tokens.itemsize), pa.py_buffer(tokens)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def aligned(field: str, column: Any, kind: pa.DataType, offsets: I64, name: Namer) -> Array | None:
    """The flat values of a list column that has one value per response id, or None when it is absent throughout."""
    if column is None:
        return None
    if len(column) != len(offsets) - 1:
        raise InvalidRecord(field, f"has {len(column)} rows where there are {len(offsets) - 1} steps")
    if isinstance(column, pa.Array | pa.ChunkedArray) and len(column) and column.null_count == len(column):
        return None
    values, found = flatten(field, column, kind, name, nulls=True)
    wrong = np.diff(found) != np.diff(offsets)
    if wrong.any():
        row = int(wrong.argmax())
        counts = f"{np.diff(found)[row]} values for {np.diff(offsets)[row]} response ids"
        raise InvalidRecord(field, f"{name(row)} has {counts}; they must be equal in number, or absent in every step")
    return values


def row_of(offsets: I64, position: int) -> int:
    """The row whose values include flat position `position`."""
    return int(np.searchsorted(offsets, position, side="right")) - 1


def is_list_column(column: Any) -> bool:
    """Whether `column` is an Arrow array or chunked array of lists."""
    return isinstance(column, pa.Array | pa.ChunkedArray) and _is_list(column.type)


def to_list_column(field: str, rows: Any, value_type: pa.DataType, name: Namer) -> pa.Array:
    """A Python sequence of sequences (lists or numpy arrays, `None` for a missing row) as an Arrow list column."""
    rows = list(rows)
    try:
        return pa.array(rows, pa.large_list(value_type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        row = _first_failure(rows, lambda one: pa.array([one], pa.large_list(value_type)))
        raise InvalidRecord(field, f"{name(row)} is not a list of {value_type}: {error}") from error


def _as_large_lists(field: str, column: Any, value_type: pa.DataType) -> pa.LargeListArray:
    if not is_list_column(column):
        kind = getattr(column, "type", type(column).__name__)
        raise InvalidRecord(field, f"must be an Arrow list column, is {kind}")
    found = column.type.value_type
    if not _same_kind(found, value_type):
        raise InvalidRecord(field, f"must be a list column of {value_type}, is one of {found}")
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(pa.large_list(found))


def _same_kind(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast only changes width: Arrow would also parse strings and round-trip booleans."""
    kinds = pa.types
    if kinds.is_null(found):
        return True
    if kinds.is_floating(wanted):
        return bool(kinds.is_floating(found) or kinds.is_integer(found))
    return bool(kinds.is_integer(found) if kinds.is_integer(wanted) else found == wanted)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _first_failure(items: Any, convert: Callable[[Any], Any]) -> int:
    """Row number of the first item `convert` refuses; only reached once the whole column has been refused."""
    for row, item in enumerate(items):
        try:
            convert(item)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return row
    return 0
