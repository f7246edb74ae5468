from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixOrder, Sequences, _prefix, prefix_order


def rows_of(sequences: Sequences) -> list[list[int]]:
    return [part.tolist() for part in np.split(sequences.tokens, sequences.offsets[1:-1])] if len(sequences) else []


def common(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def check_order(sequences: Sequences) -> None:
    found = prefix_order(sequences)
    rows = rows_of(sequences)
    in_bytes = [np.array(row, np.int32).tobytes() for row in rows]
    assert found.order.tolist() == sorted(range(len(rows)), key=in_bytes.__getitem__)
    placed = [rows[i] for i in found.order]
    shared = [0, *(common(a, b) for a, b in pairwise(placed))]
    assert found.shared.tolist() == shared[: len(rows)]


@given(data=st.data())
def test_order_is_stable_and_shared_is_the_common_prefix(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    check_order(to_sequences(data.draw(branching_steps)))


@given(st.lists(st.lists(st.sampled_from([0, 1, 255, 256, 65536, 2**31 - 1]), min_size=1), max_size=8))
def test_ids_of_several_bytes_never_share_part_of_a_token(rows: list[list[int]]) -> None:
    check_order(Sequences.from_lists(rows, [[]] * len(rows)))


@pytest.mark.parametrize("differs_at", [0, _prefix.CHUNK - 1, _prefix.CHUNK, _prefix.CHUNK + 1, 2 * _prefix.CHUNK])
def test_prefixes_longer_than_a_chunk(differs_at: int) -> None:
    size = 2 * _prefix.CHUNK + 3
    one = np.zeros(size, np.int32)
    other = one.copy()
    other[differs_at] = 1
    found = prefix_order(Sequences.from_lists([one, other, one, one[:-2]], [[]] * 4))
    assert found.order.tolist() == [3, 0, 2, 1]
    assert found.shared.tolist() == [0, size - 2, size, differs_at]


def test_a_batch_begins_with_nothing_shared() -> None:
    with pytest.raises(InvalidRecord, match="shared"):
        PrefixOrder(np.array([0]), np.array([1]))
    with pytest.raises(InvalidRecord, match="shared"):
        PrefixOrder(np.array([0, 1]), np.array([0]))
