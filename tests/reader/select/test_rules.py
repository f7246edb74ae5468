"""Which steps train, and under which reason each of the others stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.reader.stories import steps_of

from stepwell.errors import InvalidRecord
from stepwell.reader._select.rules import Verdict, Wanted, judge
from stepwell.reader._select.steps import LOST, Steps

RL = Wanted(rl=True, grouped=True, old_logprobs=None, derived=False, on_drift="fork", on_error="raise", longest=8)
SFT = replace(RL, rl=False, grouped=False)


def skipping(steps: Steps, wanted: Wanted = RL) -> Verdict:
    return judge(steps, replace(wanted, on_error="skip"))


def test_nothing_is_wrong_with_these() -> None:
    found = judge(steps_of([0, 0, 1], ["g", "g"]), RL)
    assert found.trained.all()
    assert (found.left_out, found.faults, found.old_logprobs) == ({}, {}, True)
    assert found.kept.tolist() == [2, 2, 2]


def test_each_step_stands_under_the_first_reason_that_holds() -> None:
    steps = steps_of(
        [0] * 8,
        selected=[True] * 7 + [False],
        training=[False, True, True, True, True, True, True, True],
        superseded=[True, True, False, False, False, False, False, False],
        side=[False, True, True, False, False, False, False, False],
        untrainable=[None, None, None, "redacted", None, None, None, None],
        derived=[False, False, False, True, True, False, False, False],
        response_length=[2, 2, 2, 2, 2, 0, 2, 2],
        logprobs=np.array([2, 2, 2, 2, 2, 0, 2, 2], np.int32),
    )
    found = judge(steps, RL)
    assert np.flatnonzero(found.trained).tolist() == [6]
    assert found.left_out == {
        "eval split": 1,
        "superseded attempt": 1,
        "side call": 1,
        "not trainable: redacted": 1,
        "ids not sampled by an engine": 1,
        "empty response": 1,
    }


def test_derived_ids_train_when_they_are_asked_for() -> None:
    steps = steps_of([0, 0], derived=[True, False])
    assert judge(steps, replace(SFT, derived=True)).trained.all()
    assert judge(steps, SFT).trained.tolist() == [False, True]


def test_dropping_leaves_out_the_steps_that_drifted_and_no_others() -> None:
    steps = steps_of([0, 0, 0], parent=[-1, 0, 1], drift=[None, "history", None], drift_at=[-1, 1, -1])
    found = judge(steps, replace(RL, on_drift="drop"))
    assert (found.trained.tolist(), found.left_out) == ([True, False, True], {"drifted": 1})


def test_realigning_shortens_what_is_kept() -> None:
    steps = steps_of([0, 0], parent=[-1, 0], prompt_length=[3, 6], drift=[None, "retokenised"], drift_at=[-1, 4])
    assert judge(steps, replace(RL, on_drift="realign")).kept.tolist() == [1, 2]
    assert judge(steps, RL).kept.tolist() == [2, 2]


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no ids": ({"prompt_length": [3, -1], "response_length": [2, -1]}, "prompt_ids"),
    "empty prompt": ({"prompt_length": [3, 0]}, "prompt_ids"),
    "lost parent": ({"parent": [-1, LOST]}, "parent_id"),
    "too long": ({"prompt_length": [6, 7]}, "max_tokens"),
    "no logprobs": ({"logprobs": np.array([2, -1], np.int32)}, "logprobs"),
    "fewer logprobs": ({"logprobs": np.array([2, 1], np.int32)}, "logprobs"),
    "raw logprobs": ({"reshaped": [False, True], "sampling": ["{}", '{"top_p":0.5}']}, "logprobs"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_of_a_step_is_refused_by_name_or_skipped_and_counted(kind: str) -> None:
    columns, field = FAULTS[kind]
    steps = steps_of([0, 1], ["g", "g"], **columns)
    with pytest.raises(InvalidRecord, match="step s1 of group 'g'") as refused:
        judge(steps, RL)
    assert refused.value.field == field
    assert "on_error='skip'" in str(refused.value)
    found = skipping(steps)
    assert found.trained.tolist() == [True, False]
    assert list(found.faults.values()) == [1]
    assert found.left_out == {}


def test_what_is_not_selected_may_be_as_faulty_as_it_likes() -> None:
    steps = steps_of([0, 0, 0], selected=[True, False, False], prompt_length=[3, 0, 99], policy=["pi", "x", "y"])
    assert judge(steps, RL).trained.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("columns", "wanted", "field"),
    [
        ({"fingerprint": ["m", "n", "m"]}, RL, "fingerprint"),
        ({"fingerprint": ["m", "n", "m"]}, SFT, "fingerprint"),
        ({"fingerprint": ["m", None, "m"]}, SFT, "fingerprint"),
        ({"policy": ["pi", "rho", "pi"]}, RL, "policy"),
        ({"prompts": ["p", "q", "p"]}, RL, "prompt_id"),
    ],
)
def test_a_group_that_mixes_what_must_not_be_is_skipped_as_a_whole(columns: Any, wanted: Wanted, field: str) -> None:
    """Trajectories 0 and 1 are of one group, and 2 of another."""
    steps = steps_of([0, 1, 2], ["g", "g", "h"], **columns)
    with pytest.raises(InvalidRecord, match="2 steps, first step s0 of group 'g'") as refused:
        judge(steps, wanted)
    assert refused.value.field == field
    found = skipping(steps, wanted)
    assert found.trained.tolist() == [False, False, True]
    assert list(found.faults.values()) == [2]


def test_several_policies_and_prompts_are_fine_where_nothing_is_compared() -> None:
    steps = steps_of([0, 1], ["g", "g"], ["p", "q"], policy=["pi", "rho"])
    assert judge(steps, SFT).trained.all()
    alone = steps_of([0, 1], [None, None], ["p", "q"], policy=["pi", "rho"])
    assert judge(alone, RL).trained.all(), "trajectories without a group are not one group"


@pytest.mark.parametrize(
    ("wanted", "logprobs", "taken"),
    [(RL, 2, True), (RL, -1, False), (SFT, 2, False), (replace(RL, old_logprobs=False), 2, False)],
)
def test_old_logprobs_are_taken_where_they_are_of_use(wanted: Wanted, logprobs: int, taken: bool) -> None:
    steps = steps_of([0, 0], logprobs=np.full(2, logprobs, np.int32))
    found = judge(steps, wanted)
    assert found.old_logprobs is taken
    assert found.trained.all()


def test_old_logprobs_that_are_asked_for_must_be_there() -> None:
    steps = steps_of([0, 0], logprobs=np.full(2, -1, np.int32))
    with pytest.raises(InvalidRecord, match="logprobs"):
        judge(steps, replace(SFT, old_logprobs=True))


def test_nothing_left_says_why() -> None:
    steps = steps_of([0, 0, 0], training=[False, False, True], prompt_length=[3, 3, 0])
    with pytest.raises(InvalidRecord, match="of 3 steps selected, 2 eval split, 1 has an empty prompt"):
        skipping(steps)
