"""Prompt groups into optimizer steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.stories import steps_of

from stepwell.reader._select.order import Groups
from stepwell.reader._select.steps import Steps


def of(policies: Sequence[str], fingerprints: Sequence[str] | None = None) -> Steps:
    """A group of one trajectory with two steps for each policy."""
    size = len(policies)
    return steps_of(
        np.repeat(np.arange(size), 2).tolist(),
        [f"g{number:03}" for number in range(size)],
        policy=[name for name in policies for _ in range(2)],
        fingerprint=[name for name in fingerprints or ["m"] * size for _ in range(2)],
    )


def groups_of(steps: Steps, per_step: int | None, seed: int | None = 0, epoch: int = 0) -> list[list[int]]:
    groups = Groups(steps, steps.selected)
    return [some.tolist() for some in groups.schedule(per_step, seed, epoch)]


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.integers(1, 5), st.integers(0, 3))
def test_every_group_is_in_one_step_of_an_epoch_and_no_step_has_two_policies(
    policies: list[str], per_step: int, epoch: int
) -> None:
    found = groups_of(of(policies), per_step, epoch=epoch)
    assert sorted(group for some in found for group in some) == list(range(len(policies)))
    assert all(len({policies[group] for group in some}) == 1 for some in found)
    sizes = [len(some) for some in found]
    full = [size == per_step for size in sizes]
    assert max(sizes) <= per_step
    assert full == sorted(full, reverse=True), "what fills no step comes last"
    assert full.count(False) <= len(set(policies))


def test_two_tokenizers_are_kept_apart_like_two_policies() -> None:
    assert groups_of(of("aaaa", ["m", "n", "m", "n"]), None, seed=None) == [[0, 2], [1, 3]]


def test_without_a_seed_groups_come_in_their_own_order_in_every_epoch() -> None:
    for epoch in range(2):
        assert groups_of(of("aaaaa"), 2, None, epoch) == [[0, 1], [2, 3], [4]]


def test_a_seed_decides_the_order_and_each_epoch_has_another() -> None:
    steps = of("a" * 40)
    assert groups_of(steps, 8) == groups_of(steps, 8)
    assert groups_of(steps, 8) != groups_of(steps, 8, epoch=1)
    assert groups_of(steps, 8) != groups_of(steps, 8, seed=1)


def test_policies_take_turns_as_the_seed_has_them() -> None:
    """Not all of one policy and then all of the other: a trainer would forget the first."""
    found = groups_of(of("ab" * 40), 4)
    first = ["ab"[some[0] % 2] for some in found]
    assert sum(one != other for one, other in pairwise(first)) > 4


def test_rows_are_all_steps_of_the_groups_and_a_trajectory_without_one_is_its_own() -> None:
    """Group g has two trajectories, of which one is not trained on; two more have no group."""
    steps = steps_of([0, 0, 1, 2, 2, 3], ["g", "g", None, None], selected=[True, True, False, True, False, True])
    groups = Groups(steps, steps.selected)
    assert [groups.rows(np.array([number])).tolist() for number in range(len(groups))] == [[0, 1, 2], [3, 4], [5]]
    assert groups.rows(np.array([2, 0])).tolist() == [0, 1, 2, 5]


@pytest.mark.parametrize("trained", [[False, True, True, False], [True, False, False, True]])
def test_groups_without_a_step_to_train_on_are_not_there(trained: list[bool]) -> None:
    steps = steps_of([0, 1, 2, 3], ["g", "h", "h", "i"], selected=trained)
    groups = Groups(steps, steps.selected)
    rows = [groups.rows(some).tolist() for some in groups.schedule(1, None, 0)]
    assert rows == ([[1, 2]] if trained[1] else [[0], [3]])
