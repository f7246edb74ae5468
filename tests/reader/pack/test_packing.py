from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.pack.forests import Forest, forests, of

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixOrder, Sequences, merge, prefix_order
from stepwell.reader._pack.packing import Pack, pack_forest


def everything(packs: tuple[tuple[Pack, ...], ...]) -> list[Pack]:
    return [pack for some in packs for pack in some]


@settings(deadline=None)
@given(forests(30), st.integers(0, 20), st.integers(1, 5))
def test_every_row_is_in_one_pack_and_no_pack_is_over_the_budget(forest: Forest, slack: int, ranks: int) -> None:
    budget = max(1, int(forest.lengths.max(initial=0)) + slack)
    packing = pack_forest(*forest, budget=budget, ranks=ranks)
    packs = everything(packing.ranks)
    assert sorted(place for pack in packs for place in pack.places.tolist()) == list(range(len(forest.lengths)))
    assert len({len(some) for some in packing.ranks}) == 1
    assert len(packing.ranks) == ranks
    assert max((pack.tokens for pack in packs), default=0) <= packing.budget <= budget
    for pack in packs:
        assert pack.tokens == int((forest.lengths[pack.places] - pack.shared).sum())
        assert (np.diff(pack.places) > 0).all()
    assert packing.tokens >= packing.unique == int((forest.lengths - forest.shared).sum())
    assert packing.makespan >= packing.bound
    assert packing.makespan == max(sum(pack.tokens for pack in some) for some in packing.ranks)
    assert packing.empty == sum(not len(pack.places) for pack in packs)
    assert packing.packs == len(packs)


@settings(deadline=None)
@given(data=st.data())
def test_packs_merge_to_the_same_terms_and_share_all_that_they_can(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    """Each pack is exact (`merge` checks it), and as small as if its rows had been sorted by themselves."""
    sequences = to_sequences(data.draw(branching_steps))
    if not len(sequences):
        return
    order = prefix_order(sequences)
    lengths = sequences.lengths[order.order]
    budget = max(1, int(lengths.max()) + data.draw(st.integers(0, 12)))
    packing = pack_forest(lengths, order.shared, budget=budget, ranks=data.draw(st.integers(1, 3)))
    occurrences = 0
    for pack in everything(packing.ranks):
        rows = order.order[pack.places]
        batch = merge(sequences, prefixes=PrefixOrder(rows, pack.shared))
        assert batch.tokens_merged == pack.tokens
        assert np.array_equal(pack.shared, prefix_order(sequences, rows).shared)
        occurrences += batch.occurrences
    assert occurrences == sequences.trained_total


def test_pieces_of_one_tree_that_meet_again_share_what_all_rows_between_do() -> None:
    """A root of 2 with branches of 4, 10 and 3: the middle one fills a pack, and the others meet in another."""
    forest = of([(0, 6), (2, 10), (2, 3)])
    (packs,) = pack_forest(*forest, budget=12, ranks=1).ranks
    by_rows = {tuple(pack.places.tolist()): pack for pack in packs}
    assert by_rows.keys() == {(0, 2), (1,)}
    assert by_rows[0, 2].shared.tolist() == [0, 2]
    assert by_rows[0, 2].tokens == 9


def test_the_same_rows_give_the_same_packs() -> None:
    forest = of([(3 * (row % 5), 1 + row % 7) for row in range(60)])
    one, other = (pack_forest(*forest, budget=30, ranks=3) for _ in range(2))
    assert [[pack.places.tolist() for pack in some] for some in one.ranks] == [
        [pack.places.tolist() for pack in some] for some in other.ranks
    ]


def test_a_smaller_budget_is_taken_when_the_slowest_rank_is_done_sooner() -> None:
    """Six equal trees on four ranks: with the whole budget one rank has two packs of which each is full."""
    forest = of([(0, 10)] * 12)
    packing = pack_forest(*forest, budget=40, ranks=4)
    assert packing.makespan == packing.bound == 30
    assert packing.budget < 40


def test_nothing_to_pack_is_no_pack_on_any_rank() -> None:
    packing = pack_forest(*of([]), budget=8, ranks=2)
    assert packing.ranks == ((), ())
    assert packing.bound == packing.makespan == packing.packs == 0


@pytest.mark.parametrize(("budget", "ranks", "words"), [(4, 1, "5 tokens does not fit"), (8, 0, "ranks")])
def test_what_cannot_be_packed_is_refused(budget: int, ranks: int, words: str) -> None:
    with pytest.raises(InvalidRecord, match=words):
        pack_forest(*of([(0, 5)]), budget=budget, ranks=ranks)
