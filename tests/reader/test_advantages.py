from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import grpo, spread_to_steps

REWARDS = st.lists(
    st.tuples(st.one_of(st.just(float("nan")), st.floats(-100, 100), st.sampled_from([0.1, 1.0])), st.integers(-2, 3)),
    max_size=20,
)


def one_by_one(rewards: list[float], groups: list[int], std: bool) -> list[float]:
    """The definition, group by group, in Python."""
    found = []
    for reward, group in zip(rewards, groups, strict=True):
        members = [r for r, g in zip(rewards, groups, strict=True) if g == group and r == r]
        if reward != reward:
            found.append(float("nan"))
        elif len(set(members)) == 1:
            found.append(0.0)
        else:
            spread = np.std(members, ddof=1) + 1e-6 if std else 1.0
            found.append((reward - np.mean(members)) / spread)
    return found


@given(REWARDS, st.booleans())
def test_each_reward_against_its_group(pairs: list[tuple[float, int]], std: bool) -> None:
    rewards, groups = [r for r, _ in pairs], [g for _, g in pairs]
    found = grpo(rewards, groups, std)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, one_by_one(rewards, groups, std), rtol=1e-5, atol=1e-6)


def test_a_group_by_hand() -> None:
    assert grpo([1, 0, 0, 1], [5, 5, 5, 5]).tolist() == pytest.approx([0.8660239, -0.8660239, -0.8660239, 0.8660239])
    assert grpo([1, 0, 0, 1], [5, 5, 5, 5], std=False).tolist() == [0.5, -0.5, -0.5, 0.5]


def test_undefined_cases() -> None:
    nan = float("nan")
    found = grpo([0.7, 0.1, 0.1, 0.1, 1.0, nan, nan, 3.0], [1, 2, 2, 2, 3, 3, 4, 5])
    # alone; all equal (0.1 has a mean of 0.1 + 1 ulp); alone with a reward; missing; no reward in the group; alone
    assert found[[0, 1, 2, 3, 4, 7]].tolist() == [0.0] * 6
    assert np.isnan(found[[5, 6]]).all()


def test_missing_rewards_do_not_move_the_baseline() -> None:
    found = grpo([1.0, 0.0, float("nan")], [0, 0, 0], std=False)
    assert found[:2].tolist() == [0.5, -0.5]
    assert np.isnan(found[2])


def test_close_rewards_far_from_zero_keep_their_digits() -> None:
    assert grpo([1e9, 1e9 + 1], [0, 0]).tolist() == pytest.approx([-0.70710, 0.70710], abs=1e-4)


@pytest.mark.parametrize(
    ("rewards", "groups", "message"),
    [
        ([1, float("inf")], [0, 0], "rewards: trajectory 1 has inf; must lie within"),
        ([1, 2], [0], "groups: has 1 values where 2 are needed"),
        ([1, 2], [0.5, 0.5], "groups: is of type float64"),
        ([1e300, -1e300], [0, 0], "rewards: trajectory 0 has 1e.300"),
    ],
)
def test_refusals(rewards: Any, groups: Any, message: str) -> None:
    with pytest.raises(InvalidRecord, match=f"^{message}"):
        grpo(rewards, groups)


def test_the_largest_rewards_are_still_compared() -> None:
    assert grpo([1e30, -1e30], [0, 0]).tolist() == pytest.approx([0.70710, -0.70710], abs=1e-4)
    assert np.isfinite(grpo([1e30, -1e30], [0, 0], std=False)).all()


def test_nothing_has_no_advantages() -> None:
    assert grpo([], []).tolist() == []


def test_steps_take_their_trajectory_s_value_whatever_their_number() -> None:
    advantage = grpo([1.0, 0.0], [0, 0], std=False)
    assert spread_to_steps(advantage, [1, 0, 0, 0, 1]).tolist() == [-0.5, 0.5, 0.5, 0.5, -0.5]
    for outside in (-1, 2):
        with pytest.raises(InvalidRecord, match=f"row 1 points at trajectory {outside} of 2"):
            spread_to_steps(advantage, [0, outside])
