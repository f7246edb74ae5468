from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import _columns

ROWS = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=5), max_size=6)


def name(row: int) -> str:
    return f"row {row}"


@given(ROWS, st.integers(0, 6), st.sampled_from([pa.int32(), pa.int64(), pa.uint32()]), st.booleans())
def test_any_list_column_flattens_to_its_rows(rows: list[list[int]], skip: int, kind: pa.DataType, large: bool) -> None:
    column = pa.array(rows, pa.large_list(kind) if large else pa.list_(kind)).slice(skip)
    for form in (column, pa.chunked_array([column[:2], column[2:]], column.type)):
        values, offsets = _columns.flatten("x", form, pa.int32(), name)
        assert values.dtype == np.int32
        assert [values[a:b].tolist() for a, b in pairwise(offsets)] == rows[skip:]


def test_int32_values_are_not_copied() -> None:
    column = pa.array([[1, 2], [3]], pa.list_(pa.int32()))
    values, _ = _columns.flatten("x", column, pa.int32(), name)
    assert values.ctypes.data == column.values.buffers()[1].address


def test_values_outside_a_slice_do_not_matter() -> None:
    column = pa.array([[2**40], [7]], pa.list_(pa.int64()))
    assert _columns.flatten("x", column.slice(1), pa.int32(), name)[0].tolist() == [7]


def test_fixed_size_lists_are_lists() -> None:
    values, offsets = _columns.flatten("x", pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)), pa.int32(), name)
    assert (values.tolist(), offsets.tolist()) == ([1, 2, 3, 4], [0, 2, 4])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], None], pa.list_(pa.int32())), "row 1 has none"),
        (pa.array([[1], [], [2, None]], pa.list_(pa.int32())), "row 2 holds a null"),
        (pa.array([[1], [2**31]], pa.list_(pa.int64())), "row 1 cannot be read as int32"),
        (pa.array([["12"]]), "must be a list column of int32, is one of string"),
        (pa.array([[1.0]]), "must be a list column of int32, is one of double"),
        (pa.array([1, 2]), "must be an Arrow list column, is int64"),
        ([[1]], "must be an Arrow list column, is list"),
    ],
)
def test_nulls_and_unfit_values_are_refused(column: Any, message: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^ids: {message}"):
        _columns.flatten("ids", column, pa.int32(), name)


def test_a_python_row_that_is_no_list_of_numbers_is_named() -> None:
    with pytest.raises(InvalidRecord, match=r"^ids: row 1 is not a list of int32"):
        _columns.to_list_column("ids", [[1], ["a"]], pa.int32(), name)


@given(st.lists(st.tuples(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))))
def test_rows_are_joined_prompt_first(pairs: list[tuple[list[int], list[int]]]) -> None:
    flat = [
        _columns.flatten("x", pa.array([p[k] for p in pairs], pa.list_(pa.int32())), pa.int32(), name) for k in (0, 1)
    ]
    tokens, offsets = _columns.join_rows(*flat[0], *flat[1])
    assert tokens.dtype == np.int32
    assert [tokens[a:b].tolist() for a, b in pairwise(offsets)] == [p + r for p, r in pairs]


def test_aligned_is_absent_only_throughout() -> None:
    offsets = np.array([0, 2, 2, 3])
    assert _columns.aligned("lp", None, pa.float32(), offsets, name) is None
    assert _columns.aligned("lp", pa.nulls(3), pa.float32(), offsets, name) is None
    column = pa.array([[1.0, 2.0], None, [3.0]], pa.list_(pa.float64()))
    values = _columns.aligned("lp", column, pa.float32(), offsets, name)
    assert values is not None
    assert values.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2.0], [], None], "row 2 has 0 values for 1 response ids"),
        ([[1.0], [], [3.0]], "row 0 has 1 values for 2 response ids"),
        ([[1.0, 2.0], [9.0], []], "row 1 has 1 values for 0 response ids"),
        ([[1.0, 2.0], []], "has 2 rows where there are 3 steps"),
    ],
)
def test_aligned_never_pads(rows: list[list[float] | None], message: str) -> None:
    with pytest.raises(InvalidRecord, match=message):
        _columns.aligned("lp", pa.array(rows, pa.list_(pa.float32())), pa.float32(), np.array([0, 2, 2, 3]), name)
