"""Which rows of a record of steps are plainly right: everything that a `Step` asks for, looked at column by column.

A row that is not may still be right; a row that is would be taken as a `Step`, too. JSON texts are looked at where they are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.sdk.records import MAX_IDS, MAX_JSON_BYTES, MAX_LOGPROB, Split, Status
from stepwell.warehouse._parse.arrow import IDS, TEXTS, TIMES

Rows = NDArray[np.bool_]

_IDENTIFIERS = frozenset({"step_id", "call_id", "trajectory_id", "prompt_id", "group_id", "parent_id"})
_CONTROL = r"[\x00-\x1f\x7f]"
_PATTERNS = {
    "continues": r"^(response|conversation):.{1,500}$",
    "source": r"^(engine|tokenizer:.{1,200})$",
    "split": rf"^({'|'.join(get_args(Split))})$",
    "status": rf"^({'|'.join(get_args(Status))})$",
}
_LONGEST = 256
_YEARS: list[int] = np.array(["0001-01-02", "9999-12-30"], "datetime64[us]").astype(np.int64).tolist()
"""What Python's calendar holds, in microseconds since 1970."""


def plainly_right(rows: pa.RecordBatch) -> Rows:
    """For each row, whether nothing is to be found out about it."""
    right = np.ones(rows.num_rows, np.bool_)
    for wrong in _wrong(rows):
        right &= ~wrong
    return right


def _wrong(rows: pa.RecordBatch) -> Iterator[Rows]:
    names = set(rows.schema.names)
    for name in TEXTS:
        if name in names:
            yield from _wrong_texts(name, rows[name])
    for name in names.intersection(TIMES):
        at = rows[name].cast(pa.int64())
        yield _outside(at, *_YEARS)
    if "reward" in names:
        yield _where(_call("invert", _call("is_finite", rows["reward"])))
    prompt, response = (_lengths(rows, name) for name in IDS)
    logprobs = _lengths(rows, "logprobs")
    yield (prompt < 0) != (response < 0)
    yield (prompt == 0) | (prompt > MAX_IDS) | (response > MAX_IDS)
    yield (logprobs >= 0) & (logprobs != np.maximum(response, 0))
    yield (prompt < 0) & ~_given(rows, "messages")
    yield (response < 0) & ~_given(rows, "response")
    for name in names.intersection(IDS):
        yield from _wrong_items(rows[name], 0, 2**31 - 1)
    if "logprobs" in names:
        yield from _wrong_items(rows["logprobs"], float(np.finfo(np.float32).min), MAX_LOGPROB)


def _wrong_texts(name: str, column: pa.Array) -> Iterator[Rows]:
    if name in _PATTERNS:
        yield _where(_call("invert", _matches(column, _PATTERNS[name])))
        return
    least, most = (0, MAX_JSON_BYTES) if name == "untrainable_reason" else (1, _LONGEST)
    if _short_and_plain(column, least, most):
        return
    yield _outside(_call("utf8_length", column), least, most)
    if name in _IDENTIFIERS:
        yield _where(_matches(column, _CONTROL))


def _short_and_plain(column: pa.Array, least: int, most: int) -> bool:
    """Whether every text is there, has so many bytes and none of a control character: the common case, in two looks at the whole column."""
    if column.null_count or not len(column):
        return False
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    lengths, text = np.diff(ends), np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    # Bytes of control characters stand for nothing else in UTF-8.
    return bool(lengths.min() >= least and lengths.max() <= most and not ((text < 0x20) | (text == 0x7F)).any())


def _call(name: str, *columns: pa.Array) -> pa.Array:
    return pc.call_function(name, list(columns))


def _matches(column: pa.Array, pattern: str) -> pa.Array:
    return pc.call_function("match_substring_regex", [column], pc.MatchSubstringOptions(pattern))


def _outside(numbers: pa.Array, least: int, most: int) -> Rows:
    """Where a number is less, or more; a null is neither."""
    values = pc.fill_null(numbers, least).to_numpy()
    outside: Rows = (values < least) | (values > most)
    return outside


def _where(condition: pa.Array) -> Rows:
    """Where it holds: nowhere where the column is null."""
    held: Rows = pc.fill_null(condition, False).to_numpy(zero_copy_only=False)
    return held


def _given(rows: pa.RecordBatch, name: str) -> Rows:
    if name not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    given: Rows = rows[name].is_valid().to_numpy(zero_copy_only=False)
    return given


def _lengths(rows: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """-1 where there is no list."""
    if name not in rows.schema.names:
        return np.full(rows.num_rows, -1, np.int64)
    lengths: NDArray[np.int64] = np.diff(rows[name].offsets.to_numpy()).astype(np.int64)
    if rows[name].null_count:
        lengths[~_given(rows, name)] = -1
    return lengths


def _all_between(values: NDArray[Any], least: float, most: float) -> bool:
    """Not so where one is NaN."""
    if (
        values.dtype == np.int32 and least == 0
    ):  # as ids nearly always are, and many: less than 0 is more than all others
        return bool(values.view(np.uint32).max() <= most)
    return bool(least <= values.min().item() <= values.max().item() <= most)


def _wrong_items(column: pa.Array, least: float, most: float) -> Iterator[Rows]:
    """Rows of a list column in which an item is beyond these, NaN, or null."""
    items = column.flatten()  # of rows that are there, and of this slice only
    if items.null_count:
        bad = items.is_null().to_numpy(zero_copy_only=False)
    else:
        values = items.to_numpy()
        if not len(values) or _all_between(values, least, most):
            return
        values = values.astype(np.float64) if values.dtype.kind == "f" else values
        bad = ~((values >= least) & (values <= most))
    held = np.zeros(len(column), np.bool_)
    ends = np.cumsum(pc.fill_null(_call("list_value_length", column), 0).to_numpy())
    held[np.searchsorted(ends, np.flatnonzero(bad), side="right")] = True
    yield held
