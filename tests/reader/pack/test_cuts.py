from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.pack.forests import Forest, forests, of

from stepwell.errors import InvalidRecord
from stepwell.reader._pack.cuts import cut, pieces_of


def cheapest(forest: Forest, budget: int) -> tuple[int, int]:
    """Least tokens computed again, and fewest pieces with so many, of all ways to cut a tree: by trying each."""
    count = len(forest.lengths)
    found = []
    for parts in range(count):
        for places in combinations(range(1, count), parts):
            if all(forest.cost(start, stop) <= budget for start, stop in pairwise([0, *places, count])):
                found.append((sum(int(forest.shared[place]) for place in places), parts + 1))
    return min(found)


@settings(deadline=None)
@given(forests(), st.integers(0, 10))
def test_pieces_are_all_rows_in_order_and_none_is_over_the_budget(forest: Forest, slack: int) -> None:
    budget = int(forest.lengths.max(initial=0)) + slack
    pieces = pieces_of(*forest, budget)
    assert [row for start, stop in pieces for row in range(start, stop)] == list(range(len(forest.lengths)))
    assert all(forest.cost(start, stop) <= budget for start, stop in pieces)


@settings(deadline=None)
@given(forests(), st.integers(0, 10))
def test_no_cuts_of_a_tree_are_cheaper(forest: Forest, slack: int) -> None:
    count = len(forest.lengths)
    if not count:
        return
    budget = int(forest.lengths.max()) + slack
    before = [0, *np.cumsum(forest.lengths - forest.shared).tolist()]
    found = cut(before, forest.shared.tolist(), budget)
    again = sum(int(forest.shared[start]) for start, _ in found[1:])
    assert (again, len(found)) == cheapest(forest, budget)


def test_trees_that_fit_stay_whole() -> None:
    """Two trees of 9 tokens, the second of which is cut where only its root of 2 is computed again."""
    forest = of([(0, 4), (3, 3), (2, 2), (0, 5), (4, 4), (2, 4)])
    assert pieces_of(*forest, 10) == [(0, 3), (3, 5), (5, 6)]
    assert pieces_of(*forest, 13) == [(0, 3), (3, 6)]


def test_a_budget_counts_from_any_tree() -> None:
    """What lies before a tree does not count against its budget."""
    forest = of([(0, 50), (0, 3), (2, 3), (2, 3)])
    assert pieces_of(*forest, 50) == [(0, 1), (1, 4)]


def test_a_row_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="7 tokens does not fit a pack of 6"):
        pieces_of(np.array([3, 7]), np.array([0, 2]), 6)
