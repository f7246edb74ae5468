from __future__ import annotations

import pytest

from stepwell.errors import InvalidRecord
from stepwell.sdk._fields import feedback_fields, now, step_fields
from stepwell.sdk.records import Step, Trajectory

BLOCK = Trajectory(trajectory_id="t", prompt_id="p", group_id="g", split="eval", policy_version=3)


def test_short_names_of_a_step() -> None:
    fields = step_fields({"trajectory": "t", "group": "g", "prompt": "p", "parent": "s", "reward": 1}, None)
    assert fields == {"trajectory_id": "t", "group_id": "g", "prompt_id": "p", "parent_id": "s", "reward": 1}


def test_a_block_fills_in_what_is_not_said() -> None:
    assert step_fields({}, BLOCK) == {
        "trajectory_id": "t",
        "prompt_id": "p",
        "group_id": "g",
        "split": "eval",
        "policy_version": 3,
    }
    assert step_fields({"group_id": "other", "policy_version": 0}, BLOCK)["group_id"] == "other"
    assert step_fields({"policy_version": 0}, BLOCK)["policy_version"] == 0


def test_a_step_of_another_trajectory_takes_nothing_from_the_block() -> None:
    assert step_fields({"trajectory": "other"}, BLOCK) == {"trajectory_id": "other"}


def test_inside_a_run_the_run_is_the_trajectory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_TRAJECTORY", "run")
    assert step_fields({}, None) == {"trajectory_id": "run"}
    assert step_fields({}, BLOCK)["trajectory_id"] == "t"
    assert step_fields({"trajectory": "x"}, None) == {"trajectory_id": "x"}
    assert feedback_fields({"reward": 1}, None)["trajectory_id"] == "run"
    assert "trajectory_id" not in feedback_fields({"step": "s", "reward": 1}, None)


def test_feedback_without_target_is_about_the_block() -> None:
    assert feedback_fields({"reward": 1}, BLOCK)["trajectory_id"] == "t"
    assert "trajectory_id" not in feedback_fields({"response_id": "r", "reward": 1}, BLOCK)
    assert "trajectory_id" not in feedback_fields({"reward": 1}, None)


def test_a_preference() -> None:
    at = now()
    assert feedback_fields({"chosen": "a", "rejected": "b", "at": at}, None) == {
        "step_id": "a",
        "rejected_id": "b",
        "at": at,
    }
    for half, missing in (({"chosen": "a"}, "rejected"), ({"rejected": "b"}, "chosen")):
        with pytest.raises(InvalidRecord) as caught:
            feedback_fields(half, None)
        assert caught.value.field == missing


def test_feedback_is_stamped_when_it_is_given() -> None:
    assert feedback_fields({"reward": 1}, BLOCK)["at"].tzinfo is not None


def test_two_names_for_one_field() -> None:
    with pytest.raises(InvalidRecord, match="trajectory_id is given twice"):
        step_fields({"trajectory_id": "a", "trajectory": "b"}, None)
    assert step_fields({"trajectory_id": "a", "trajectory": None}, None) == {"trajectory_id": "a"}
    assert step_fields({"trajectory": None, "trajectory_id": "a"}, None) == {"trajectory_id": "a"}


def test_a_record_stands_for_its_id() -> None:
    step = Step(step_id="s", prompt_ids=[1], response_ids=[2], trajectory_id="t")
    assert feedback_fields({"step": step, "reward": 1}, None)["step_id"] == "s"
    assert step_fields({"trajectory": BLOCK}, None) == {"trajectory_id": "t"}
