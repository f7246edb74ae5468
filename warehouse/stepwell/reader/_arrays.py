"""Array types and the index helpers every module of the reader is written with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepwell.errors import InvalidRecord

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]
Array = NDArray[Any]

INT32_MAX = int(np.iinfo(np.int32).max)


def offsets_of(lengths: Array) -> I64:
    """CSR offsets i64 [n+1] of rows with these lengths [n]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def places(holds: Bools) -> I64:
    """Where it holds. `np.flatnonzero` without its detour; here, as with the methods of arrays, there are many calls and few entries."""
    return holds.nonzero()[0]


def ranges(starts: Array, lengths: Array, dtype: type[np.signedinteger[Any]] = np.int64) -> Array:
    """The integers of `[starts[i], starts[i] + lengths[i])`, range after range, as one array of `dtype`, which all of them must fit."""
    ends = lengths.cumsum(dtype=np.int64)
    found = np.arange(int(ends[-1]) if len(ends) else 0, dtype=dtype)
    found += (starts - (ends - lengths)).astype(dtype).repeat(lengths)
    return found


def stretches(values: Array, starts: I64, lengths: I64) -> Array:
    """`values[starts[i] : starts[i] + lengths[i]]`, one behind the other: what `values[ranges(starts, lengths)]` gives, copied in pieces.

    Those that follow each other in `values`, too, are one piece.
    """
    stops = starts + lengths
    apart = places(starts[1:] != stops[:-1])
    begins, ends = starts[:1].tolist() + starts[apart + 1].tolist(), stops[apart].tolist() + stops[-1:].tolist()
    return np.concatenate([values[start:stop] for start, stop in zip(begins, ends, strict=True)] or [values[:0]])


def vector(field: str, values: Any, dtype: type[np.generic], length: int | None = None) -> Array:
    """`values` as a contiguous 1-D array of `dtype` (no copy when it is one already), or `InvalidRecord`.

    Only conversions that keep the kind of number are made (an int64 to an int32, never a float to an int), and
    integers must fit: a token id or a row number that wraps around would go unnoticed.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidRecord(field, f"must be one-dimensional, has shape {array.shape}")
    if length is not None and len(array) != length:
        raise InvalidRecord(field, f"has {len(array)} values where {length} are needed")
    if array.dtype != dtype and len(array):
        _refuse_lossy(field, array, np.dtype(dtype))
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is refused as such
        return np.ascontiguousarray(array, dtype)


def _refuse_lossy(field: str, array: Array, dtype: np.dtype[Any]) -> None:
    widening = np.can_cast(array.dtype, dtype, "same_kind") or (dtype.kind in "if" and array.dtype.kind in "iu")
    if not widening:
        raise InvalidRecord(field, f"is of type {array.dtype}, not {dtype}; convert it where its meaning is known")
    if dtype.kind == "i" and not (np.iinfo(dtype).min <= int(array.min()) and int(array.max()) <= np.iinfo(dtype).max):
        raise InvalidRecord(field, f"holds numbers that do not fit {dtype}")
