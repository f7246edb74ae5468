"""Every estimator against its definition, and the cases in which the usual shortcuts are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.credit import oracle
from tests.reader.credit.forest import NAN, Step, Trajectory, chain, rollouts, trajectories

from stepwell.errors import InvalidRecord
from stepwell.reader._credit import Advantage, Credit, Rollouts, assign
from stepwell.reader._credit.advantage import USES
from stepwell.reader._credit.estimators import ESTIMATORS


@st.composite
def _options(draw: st.DrawFn) -> Advantage:
    estimator = draw(st.sampled_from(sorted(ESTIMATORS)))
    names = ("process", "style", "tests") if estimator == "step" else ("tests", "judge")
    choices: dict[str, st.SearchStrategy[Any]] = {
        "rewards": st.none() | st.dictionaries(st.sampled_from(names), st.sampled_from([1.0, -2.0, 0.5]), min_size=1),
        "absent": st.none() | st.sampled_from([0.0, -1.0]),
        "truncated": st.sampled_from(["keep", "mask"]),
        "baseline": st.sampled_from(["group", "selected"]),
        "alone": st.sampled_from(["zero", "reward"]),
        "std": st.booleans(),
        "eps": st.sampled_from([1e-6, 0.1]),
        "discount": st.sampled_from([1.0, 0.9, 0.0]),
        "whiten": st.booleans(),
    }
    used = {name: draw(choice) for name, choice in choices.items() if name in USES[estimator]}
    if not used.get("whiten", True):
        used = {name: value for name, value in used.items() if name not in ("baseline", "eps")}
    if not used.get("std", True):
        del used["eps"]
    return Advantage(estimator, missing="skip", **used)


def _flat(values: oracle.Values) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([NAN if value is None else value for row in values for value in row], np.float64)


def _advantage(*given: Trajectory, how: Any = "grpo", **changed: Any) -> list[float]:
    found = assign(rollouts(list(given), **changed), how).advantage
    assert found is not None
    assert found.dtype == np.float32
    return [round(float(value), 4) for value in found]


@settings(max_examples=120)
@given(trajectories(), _options())
def test_every_estimator_is_its_definition(given_: list[Trajectory], options: Advantage) -> None:
    credit = assign(rollouts(given_), options)
    expected = _flat(oracle.advantages(given_, options))
    candidates = np.array([oracle.is_candidate(one, at, options) for one in given_ for at in range(len(one.steps))])
    assert credit.trained.tolist() == (candidates & ~np.isnan(expected)).tolist()
    assert credit.advantage is not None
    np.testing.assert_allclose(
        credit.advantage, np.where(credit.trained, expected, NAN), rtol=1e-4, atol=1e-4, equal_nan=True
    )
    selected = sum(step.selected for one in given_ for step in one.steps)
    assert sum(credit.left_out.values()) == selected - int(credit.trained.sum())


@settings(max_examples=60)
@given(trajectories(), _options(), st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_numbers_of_groups_mean_nothing(
    given_: list[Trajectory], options: Advantage, random: Any
) -> None:
    before = rollouts(given_)
    steps, rows = list(range(len(before))), list(range(before.trajectories))
    random.shuffle(steps)
    random.shuffle(rows)
    again = assign(_permuted(before, np.array(steps), np.array(rows)), options)
    first = assign(before, options)
    assert first.advantage is not None
    assert again.advantage is not None
    assert again.trained.tolist() == first.trained[steps].tolist()
    np.testing.assert_allclose(again.advantage, first.advantage[steps], rtol=1e-5, atol=1e-6, equal_nan=True)
    np.testing.assert_array_equal(again.weight, first.weight[steps])


def _permuted(of: Rollouts, steps: Any, rows: Any) -> Rollouts:
    """Row i is what was row `steps[i]`, trajectory i what was `rows[i]`, and groups have other numbers."""
    parent = np.where(of.parent >= 0, np.argsort(steps)[of.parent], -1)
    return Rollouts(
        step=of.step[steps],
        trajectory=np.argsort(rows)[of.trajectory[steps]].astype(np.int32),
        group=np.where(of.group >= 0, 1000 - 7 * of.group, -1)[rows],
        sequence=of.sequence[steps],
        parent=parent[steps],
        complete=of.complete[rows],
        truncated=of.was_cut[rows],
        selected=of.selected[steps],
        response_length=of.response_length[steps],
        trajectory_rewards={name: values[rows] for name, values in of.trajectory_rewards.items()},
        step_rewards={name: values[steps] for name, values in of.step_rewards.items()},
    )


def test_every_estimator_says_which_settings_it_has() -> None:
    assert set(USES) == {*ESTIMATORS, "none", "callable"}


def test_grpo_over_rows_is_another_estimator_when_step_counts_differ() -> None:
    """A trainer that is handed one row per step and recomputes GRPO counts the longest trajectory three times."""
    given_ = [chain(None, None, None, final=1.0), chain(None, final=0.0)]
    ours = _advantage(*given_, how=Advantage("grpo", std=False))
    assert ours == [0.5, 0.5, 0.5, -0.5]
    rows = np.array([1.0, 1.0, 1.0, 0.0])
    assert (rows - rows.mean()).tolist() == [0.25, 0.25, 0.25, -0.75]
    assert sum(set(ours)) == 0  # the group's trajectories balance, whatever their lengths


def test_a_filter_does_not_move_the_baseline() -> None:
    given_ = [chain(None, final=1.0), chain(None, final=0.0), chain(None, final=0.5)]
    given_[1].steps[0].selected = False
    assert _advantage(*given_, how=Advantage(std=False))[::2] == [0.5, 0.0]
    assert _advantage(*given_, how=Advantage(std=False, baseline="selected"))[::2] == [0.25, -0.25]


def test_alone_and_all_equal() -> None:
    given_ = [chain(None, final=0.7), *(chain(None, final=0.1, group=1) for _ in range(3))]
    credit = assign(rollouts(given_), "grpo")
    assert credit.advantage is not None
    # exactly: the mean of three times 0.1 is off by one ulp
    assert credit.advantage.tolist() == [0.0] * 4
    assert credit.level_groups == 2
    assert credit.trained.all()
    assert _advantage(*given_, how=Advantage("rloo", alone="reward")) == [0.7, 0.0, 0.0, 0.0]


def test_level_groups_are_those_whose_trained_steps_learn_nothing() -> None:
    given_ = [chain(None, None, final=0.5), chain(None, final=1.0, group=1), chain(None, final=0.0, group=1)]
    given_[0].steps[1].selected = False
    assert assign(rollouts(given_), "grpo").level_groups == 1
    assert assign(rollouts([chain(None, final=0.0, group=-1)]), "reinforce").level_groups == 0


def test_rloo_leaves_oneself_out() -> None:
    assert _advantage(*(chain(None, final=value) for value in (3.0, 0.0, 1.0)), how="rloo") == [2.5, -2.0, -0.5]


def test_discount_goes_along_parent_edges_and_not_by_turn() -> None:
    one = chain(None, None, None, None, final=8.0)
    one.steps[2].parent = None  # a sub-agent: two roots with one step below each
    assert _advantage(one, how=Advantage("reinforce", discount=0.5)) == [4.0, 8.0, 4.0, 8.0]


def test_a_shared_step_counts_what_its_branches_earn_once() -> None:
    """0 → 1 → 2 and 0 → 1 → 3: the reward of each step is in the return of 0 once, and 1 is one step."""
    one = chain(1.0, 2.0, 10.0, 100.0, final=8.0)
    one.steps[3].parent = 1
    assert _advantage(one, how="step") == [113.0, 112.0, 10.0, 100.0]
    assert _advantage(one, how=Advantage("step", discount=0.5)) == [29.5, 57.0, 10.0, 100.0]
    assert _advantage(one, how=Advantage("reinforce", discount=0.5)) == [2.0, 4.0, 8.0, 8.0]
    assert _advantage(one, how=Advantage("step", {"process": 1.0, "tests": 2.0})) == [129.0, 128.0, 26.0, 116.0]


def test_a_step_without_reward_adds_nothing_but_a_trajectory_without_any_is_missing() -> None:
    given_ = [chain(None, 2.0, None), chain(None, None)]
    credit = assign(rollouts(given_), Advantage("step", missing="skip"))
    assert credit.advantage is not None
    assert credit.advantage[:3].tolist() == [2.0, 2.0, 0.0]
    assert np.isnan(credit.advantage[3:]).all()
    assert credit.left_out == {"no reward": 2}
    assert _advantage(*given_, how=Advantage("step", absent=-1.0, discount=0.5))[3:] == [-0.5, -1.0]


def test_a_name_that_steps_have_is_theirs_also_where_trajectories_have_it() -> None:
    both = {"process": [100.0]}
    assert _advantage(chain(1.0, 2.0), how=Advantage("step", {"process": 1.0}), trajectory_rewards=both) == [3.0, 2.0]


def test_several_rewards() -> None:
    given_ = [chain(None, final=1.0), chain(None, final=0.0)]
    given_[0].rewards["judge"] = 0.5
    both = Advantage("reinforce", {"tests": 2.0, "judge": -1.0}, missing="skip")
    assert assign(rollouts(given_), both).left_out == {"no reward": 1}  # a partial sum is no reward
    assert _advantage(*given_, how=Advantage("reinforce", {"tests": 2.0, "judge": -1.0}, absent=1.0)) == [1.5, -1.0]
    assert _advantage(*given_, how="reinforce") == [1.5, 0.0]
    assert _advantage(*given_, how=Advantage("reinforce", {"tests": 2.0, "judge": 0.0})) == [2.0, 0.0]


def test_truncated_trajectories_stay_in_the_baseline_when_they_are_masked() -> None:
    given_ = [chain(None, final=1.0), chain(None, final=0.0, truncated=True)]
    credit = assign(rollouts(given_), Advantage(std=False, truncated="mask"))
    assert credit.advantage is not None
    assert credit.advantage[0] == 0.5
    assert credit.trained.tolist() == [True, False]
    assert credit.left_out == {"truncated": 1}
    assert assign(rollouts(given_), Advantage("none", truncated="mask")).trained.tolist() == [True, False]


def test_standardising_over_tokens_weighs_long_responses_more() -> None:
    given_ = [chain(None, final=1.0), chain(None, final=0.0)]
    given_[0].steps[0].length = 6
    found = assign(rollouts(given_), Advantage("reinforce++", eps=0.0)).advantage
    assert found is not None
    tokens = np.array([1.0] * 6 + [0.0] * 2)
    expected = (np.array([1.0, 0.0]) - tokens.mean()) / tokens.std(ddof=1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"complete": False}, "'b' is not complete"),
        ({"group": -1}, "'b' has no prompt group"),
        ({"rewards": {}}, "'b' lacks a reward"),
    ],
)
def test_what_is_not_comparable_is_named(changed: dict[str, Any], words: str) -> None:
    given_ = [chain(None, final=1.0), chain(None, None, final=0.0, **changed)]
    data = rollouts(given_, names=["'a'", "'b'"])
    with pytest.raises(InvalidRecord, match=f"^advantage: trajectory {words}"):
        assign(data, "grpo")
    skipped = assign(data, Advantage("grpo", missing="skip"))
    assert list(skipped.left_out.values()) == [2]
    assert skipped.trained.tolist() == [True, False, False]
    assert skipped.weight.tolist() == [0.5, 0.0, 0.0]


def test_what_is_not_selected_need_not_be_comparable() -> None:
    given_ = [chain(None, final=1.0), chain(None, complete=False)]
    given_[1].steps[0].selected = False
    assert assign(rollouts(given_), "grpo").left_out == {}


def test_no_group_is_needed_where_nothing_is_compared() -> None:
    assert _advantage(chain(None, final=2.0, group=-1), how="reinforce") == [2.0]


def test_none_has_no_advantages_and_needs_no_reward() -> None:
    for how in (None, "none"):
        credit = assign(rollouts([chain(None, complete=False)]), how)
        assert credit.advantage is None
        assert credit.trained.all()


def test_one_s_own_estimator() -> None:
    def by_turn(given_: Rollouts) -> list[float]:
        return [float(turn) for turn in given_.sequence]

    assert _advantage(chain(None, None), chain(None), how=by_turn) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([1.0], "has 1 values where 2 are needed"),
        ([[1.0, 2.0]], "one-dimensional"),
        ([1.0, float("inf")], "step row 1 of trajectory 0 has inf"),
        ([1.0, 1e39], r"step row 1 of trajectory 0 has 1e\+39"),
        ([1.0, NAN], "given NaN by the callable"),
        (["a", "b"], "is of type"),
    ],
)
def test_one_s_own_estimator_is_checked(found: Any, words: str) -> None:
    with pytest.raises(InvalidRecord, match=words):
        assign(rollouts([chain(None, None)]), lambda _: found)


def test_one_s_own_estimator_may_leave_steps_out() -> None:
    credit: Credit = assign(rollouts([chain(None, None)]), Advantage(lambda _: [NAN, 1.0], missing="skip"))
    assert credit.trained.tolist() == [False, True]
    assert credit.left_out == {"no advantage": 1}


def test_large_rewards_keep_their_digits_and_still_compare() -> None:
    assert _advantage(*(chain(None, final=value) for value in (1e9, 1e9 + 1))) == [-0.7071, 0.7071]
    assert _advantage(*(chain(None, final=value) for value in (1e30, -1e30))) == [0.7071, -0.7071]


def test_no_steps_at_all() -> None:
    for name in (*ESTIMATORS, "none"):
        credit = assign(rollouts([]), name)
        assert len(credit.trained) == len(credit.weight) == 0


def test_a_long_chain_is_no_recursion() -> None:
    steps = [Step(at - 1 if at else None, 1, True, {"process": 1.0}) for at in range(5000)]
    found = assign(rollouts([Trajectory(0, True, False, {}, steps)]), "step").advantage
    assert found is not None
    assert found.tolist() == list(range(5000, 0, -1))
