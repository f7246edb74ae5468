"""Token lists between numpy and Arrow, without a Python object per token."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[Any]


def list_array(rows: Sequence[Array | None], kind: pa.DataType) -> pa.Array:
    """A list column of the type `kind` (`list_` or `large_list`), null where there is no array.

    Raises:
        ValueError: more values than the offsets of `kind` can count.
    """
    large = pa.types.is_large_list(kind)
    offsets = np.concatenate([[0], np.cumsum([0 if row is None else len(row) for row in rows], dtype=np.int64)])
    if not large and offsets[-1] >= 2**31:
        raise ValueError(f"{offsets[-1]} values in one batch; at most 2^31 - 1 fit")
    flat = np.concatenate([row for row in rows if row is not None] or [np.empty(0, np.int32)])
    make = pa.LargeListArray if large else pa.ListArray
    return make.from_arrays(
        pa.array(offsets, pa.int64() if large else pa.int32()),
        pa.array(flat, kind.value_type),
        type=kind,
        mask=pa.array([row is None for row in rows], pa.bool_()),
    )


def row_views(column: pa.ChunkedArray) -> list[Array | None]:
    """Each row of a list column as a view of Arrow's memory; None for a null."""
    views: list[Array | None] = []
    for chunk in column.chunks:
        if not len(chunk):
            continue
        values, ends = chunk.values.to_numpy(zero_copy_only=True), chunk.offsets.to_numpy().tolist()
        rows: list[Array | None] = [values[start:end] for start, end in pairwise(ends)]
        if chunk.null_count:
            valid = chunk.is_valid().to_pylist()
            rows = [row if there else None for row, there in zip(rows, valid, strict=True)]
        views += rows
    return views
