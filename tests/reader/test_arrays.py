from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import offsets_of, places, ranges, stretches, vector


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 7))))
def test_ranges_are_the_integers_of_each_range(pairs: list[tuple[int, int]]) -> None:
    starts, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
    assert ranges(starts, lengths).tolist() == [i for s, n in pairs for i in range(s, s + n)]
    assert offsets_of(lengths).tolist() == [sum(n for _, n in pairs[:k]) for k in range(len(pairs) + 1)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 7))), st.sampled_from([np.int32, np.float32, np.bool_]))
def test_stretches_are_the_values_of_each_range(pairs: list[tuple[int, int]], kind: type[np.generic]) -> None:
    starts, lengths = np.array(pairs, np.int64).reshape(-1, 2).T
    values = (np.arange(60) % 7 // 3).astype(kind)
    found = stretches(values, starts, lengths)
    assert found.dtype == kind and found.tolist() == values[ranges(starts, lengths)].tolist()
    assert ranges(starts, lengths, np.int32).dtype == np.int32


def test_stretches_that_follow_each_other_are_one() -> None:
    starts, lengths = np.array([3, 5, 5, 9, 1]), np.array([2, 0, 4, 1, 2])
    assert stretches(np.arange(10), starts, lengths).tolist() == [3, 4, 5, 6, 7, 8, 9, 1, 2]
    assert stretches(np.arange(10), starts[:0], lengths[:0]).tolist() == []
    assert places(np.array([True, False, True])).tolist() == [0, 2]


def test_vector_does_not_copy_what_fits() -> None:
    values = np.arange(3, dtype=np.int32)
    assert vector("x", values, np.int32) is values


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.0], np.int32),
        ([2**31], np.int32),
        ([-(2**31) - 1], np.int32),
        ([2**63], np.int64),
        ([1], np.bool_),
        (["a"], np.int64),
        ([[1]], np.int64),
    ],
)
def test_vector_refuses_what_does_not_fit(values: list[object], dtype: type[np.generic]) -> None:
    with pytest.raises(InvalidRecord, match=r"^x: "):
        vector("x", values, dtype)


def test_vector_refuses_a_wrong_length() -> None:
    with pytest.raises(InvalidRecord, match="has 2 values where 3 are needed"):
        vector("x", [1, 2], np.int64, 3)


def test_vector_widens_and_empty_lists_have_any_type() -> None:
    assert vector("x", np.array([1, 2], np.uint64), np.int32).dtype == np.int32
    assert vector("x", [1, 2], np.float32).dtype == np.float32
    assert vector("x", [], np.int32).dtype == np.int32
    assert np.isinf(vector("x", [1e300], np.float32)).all()
