from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.reader._pack.bins import best_fit_decreasing, longest_first

SIZES = st.lists(st.integers(0, 20), max_size=30)


@settings(deadline=None)
@given(SIZES, st.integers(20, 40))
def test_each_item_is_in_one_bin_that_holds_it(sizes: list[int], capacity: int) -> None:
    bins = best_fit_decreasing(np.array(sizes, np.int64), capacity)
    assert sorted(item for items in bins for item in items) == list(range(len(sizes)))
    loads = sorted(sum(sizes[item] for item in items) for items in bins)
    assert all(load <= capacity for load in loads)
    assert all(items for items in bins)
    # two bins that fit into one would have been one
    assert len(loads) < 2 or loads[0] + loads[1] > capacity


def test_an_item_goes_where_least_room_is_left() -> None:
    sizes = np.array([3, 6, 5, 4, 2], np.int64)
    assert best_fit_decreasing(sizes, 10) == [[1, 3], [2, 0, 4]]


@settings(deadline=None)
@given(SIZES, st.integers(1, 7))
def test_ranks_get_equally_many_up_to_one(loads: list[int], ranks: int) -> None:
    given_ = longest_first(np.array(loads, np.int64), ranks)
    assert len(given_) == ranks
    assert sorted(item for items in given_ for item in items) == list(range(len(loads)))
    assert max(map(len, given_)) <= -(-len(loads) // ranks)


def test_the_heaviest_go_to_who_has_least() -> None:
    assert longest_first(np.array([1, 7, 5, 4, 3, 2], np.int64), 2) == [[1, 4, 0], [2, 3, 5]]
    assert longest_first(np.array([9, 1, 1, 1], np.int64), 2) == [[0, 3], [1, 2]]  # and yet not more than half of them
