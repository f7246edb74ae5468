"""Lists of numbers go to Arrow and back without change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.warehouse._tables.arrow import list_array, row_views

KINDS = [pa.list_(pa.int32()), pa.large_list(pa.int32()), pa.list_(pa.float32())]
ROWS = st.lists(st.none() | st.lists(st.integers(-(2**24), 2**24), max_size=5), max_size=12)


@given(rows=ROWS, kind=st.sampled_from(KINDS), cuts=st.lists(st.integers(0, 12), max_size=2))
def test_round_trip(rows: list[list[int] | None], kind: Any, cuts: list[int]) -> None:
    dtype = np.float32 if pa.types.is_floating(kind.value_type) else np.int32
    array = list_array([None if row is None else np.array(row, dtype) for row in rows], kind)
    assert array.type == kind
    assert array.to_pylist() == rows
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    chunks = [array.slice(start, stop - start) for start, stop in itertools.pairwise(borders)]
    views = row_views(pa.chunked_array(chunks, type=kind))
    assert [None if view is None else view.tolist() for view in views] == rows
    assert all(view.dtype == dtype for view in views if view is not None)


def test_views_are_no_copies() -> None:
    array = list_array([np.arange(5, dtype=np.int32)], KINDS[0])
    [view] = row_views(pa.chunked_array([array]))
    assert view is not None
    assert not view.flags.owndata
    assert view.__array_interface__["data"][0] == array.values.buffers()[1].address


def test_more_than_the_offsets_can_count_is_refused() -> None:
    huge = np.broadcast_to(np.int32(1), 2**30)  # no memory behind it
    with pytest.raises(ValueError, match="values in one batch"):
        list_array([huge, huge], KINDS[0])
