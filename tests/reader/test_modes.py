"""The three ways to merge train on the same occurrences, whatever the steps, however they are packed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixOrder, Sequences, TreeBatch, merge
from stepwell.reader._modes import Merge, arranged
from stepwell.reader._pack.packing import pack_forest

MODES: tuple[Merge, ...] = ("tree", "trajectory", "none")


def batches(sequences: Sequences, mode: Merge, trajectories: np.ndarray, budget: int, ranks: int) -> list[TreeBatch]:
    """The packs of all ranks, with advantages and weights by which rows can be told apart."""
    order = arranged(sequences, mode, trajectories)
    packing = pack_forest(sequences.lengths[order.order], order.shared, budget=budget, ranks=ranks)
    rows = np.arange(len(sequences), dtype=np.float32)
    return [
        merge(
            sequences,
            advantage=rows - 2,
            weight=1 / (rows + 3),
            prefixes=PrefixOrder(order.order[pack.places], pack.shared),
        )
        for some in packing.ranks
        for pack in some
    ]


def occurrences(found: list[TreeBatch]) -> Counter[tuple[float, ...]]:
    """Each loss term as (step, position of the token in it, token, advantage, weight, old logprob), and how often it is there."""
    terms: Counter[tuple[float, ...]] = Counter()
    for batch in found:
        assert batch.advantage is not None
        assert batch.old_logprob is not None
        target = batch.occurrence_target
        columns = (
            batch.step_index[batch.occurrence_step],
            batch.position_ids[batch.target_position[target]],
            batch.target_id[target],
            batch.advantage,
            batch.weight,
            batch.old_logprob,
        )
        terms.update(zip(*(column.tolist() for column in columns), strict=True))
    return terms


@settings(deadline=None)
@given(data=st.data())
def test_all_three_train_on_the_same_occurrences(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    sequences = to_sequences(data.draw(branching_steps), masked=data.draw(st.booleans()))
    if not len(sequences):
        return
    whose = data.draw(st.lists(st.integers(0, 2), min_size=len(sequences), max_size=len(sequences)))
    budget = int(sequences.lengths.max()) + data.draw(st.integers(0, 20))
    made = {
        mode: batches(sequences, mode, np.array(whose, np.int64), budget, data.draw(st.integers(1, 3)))
        for mode in MODES
    }
    terms = {mode: occurrences(found) for mode, found in made.items()}
    assert terms["tree"] == terms["trajectory"] == terms["none"]
    assert max(terms["none"].values(), default=1) == 1
    assert terms["none"].total() == sequences.trained_total
    tokens = {mode: sum(batch.tokens_merged for batch in found) for mode, found in made.items()}
    assert tokens["none"] == sequences.offsets[-1]
    # (no order between tree and trajectory here: cuts can cost a tree what a line never shared)
    assert tokens["tree"] <= tokens["none"] >= tokens["trajectory"]


@settings(deadline=None)
@given(data=st.data())
def test_a_tree_computes_least_and_a_trajectory_no_more_than_its_steps(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    """In one pack, where nothing is cut."""
    sequences = to_sequences(data.draw(branching_steps))
    whose = data.draw(st.lists(st.integers(0, 2), min_size=len(sequences), max_size=len(sequences)))
    tree, lines, single = (
        merge(sequences, prefixes=arranged(sequences, mode, np.array(whose, np.int64))).tokens_merged for mode in MODES
    )
    assert tree <= lines <= single


@settings(deadline=None)
@given(data=st.data())
def test_lines_do_not_branch_and_are_of_one_trajectory(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    steps = data.draw(branching_steps)
    sequences = to_sequences(steps)
    whose = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(steps), max_size=len(steps))), np.int64)
    order = arranged(sequences, "trajectory", whose)
    batch = merge(sequences, prefixes=order)
    here = np.arange(len(batch.parent))
    assert ((batch.parent == here - 1) | (batch.parent == -1)).all()
    for place in np.flatnonzero(order.shared).tolist():
        row, before = int(order.order[place]), int(order.order[place - 1])
        assert whose[row] == whose[before]
        assert order.shared[place] == len(steps[before].tokens) < len(steps[row].tokens)  # a strict extension


def lines_of(rows: list[list[int]], whose: list[int]) -> list[list[int]]:
    """The rows on each line, by number."""
    sequences = Sequences.from_lists(rows, [[]] * len(rows))
    order = arranged(sequences, "trajectory", np.array(whose, np.int64))
    borders = np.flatnonzero(order.shared == 0)[1:]
    return sorted(part.tolist() for part in np.split(order.order, borders))


def test_a_line_goes_on_beside_a_branch_and_across_other_trajectories() -> None:
    """Turns 0, 1 and 2 of one rollout, a retry of turn 1, the same opening in another trajectory, and a repetition."""
    rows = [[1, 2], [1, 2, 3], [1, 2, 3, 9, 4], [1, 2, 5], [1, 2], [1, 2, 3, 8], [1, 2, 3]]
    found = lines_of(rows, [0, 0, 0, 0, 1, 1, 0])
    assert found in ([[0, 1, 2], [3], [4, 5], [6]], [[0, 6, 2], [1], [3], [4, 5]], [[0, 1], [3], [4, 5], [6, 2]])


def test_rows_of_several_trajectories_keep_their_lines_when_interleaved() -> None:
    rows = [[1], [1], [1, 2], [1, 3], [1, 2, 4], [1, 3, 4]]
    assert lines_of(rows, [0, 1, 0, 1, 0, 1]) == [[0, 2, 4], [1, 3, 5]]


def test_only_the_three_are_known() -> None:
    with pytest.raises(InvalidRecord, match=r"'forest'.*tree, trajectory, none"):
        arranged(Sequences.from_lists([[1]], [[2]]), "forest", np.zeros(1, np.int64))  # type: ignore[arg-type]
