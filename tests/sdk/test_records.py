from __future__ import annotations

import array
import json
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.sdk._values import MAX_DEPTH
from stepwell.sdk.records import Feedback, Step, Trajectory, checked, checked_ids, encoded, new_id, packed_ids

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3, 4]}
TEXT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "response": "ho"}


def refused(model: type[Any], **fields: Any) -> InvalidRecord:
    with pytest.raises(InvalidRecord) as caught:
        checked(model, fields)
    return caught.value


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_step_of_tokens_and_one_of_text() -> None:
    step = checked(Step, {**TOKENS, "logprobs": [-0.5, -1.0]})
    assert (step.prompt_ids, step.response_ids, step.logprobs) == ([1, 2], [3, 4], [-0.5, -1.0])
    assert step.source == "engine" and step.status == "ok" and step.trainable
    assert checked(Step, TEXT).response == {"role": "assistant", "content": "ho"}


def test_ids_are_made_up_only_when_none_is_given() -> None:
    assert checked(Step, TOKENS).step_id != checked(Step, TOKENS).step_id
    assert checked(Step, {**TOKENS, "step_id": "s1"}).step_id == "s1"
    assert len(new_id()) == 32


def test_arrays_of_every_library_give_plain_numbers() -> None:
    for make in (np.array, pa.array, lambda values: array.array("l", values)):
        assert checked(Step, {"prompt_ids": make([1, 2]), "response_ids": make([3])}).prompt_ids == [1, 2]
    assert checked(Step, {**TOKENS, "logprobs": np.array([-1.0, -2.0], np.float32)}).logprobs == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "prompt_ids"),
        ({"prompt_ids": [1]}, "response_ids"),
        ({"prompt_ids": [1], "response": "text"}, "response_ids"),
        ({"messages": TEXT["messages"], "response_ids": [1]}, "prompt_ids"),
        ({**TOKENS, "prompt_ids": []}, "prompt_ids"),
        ({**TOKENS, "prompt_ids": [1, -1]}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": [2**31]}, "prompt_ids[0]"),
        ({**TOKENS, "prompt_ids": [True]}, "prompt_ids[0]"),
        ({**TOKENS, "prompt_ids": [1.0]}, "prompt_ids[0]"),
        ({**TOKENS, "prompt_ids": ["1"]}, "prompt_ids[0]"),
        ({**TOKENS, "logprobs": [-1.0]}, "logprobs"),
        ({**TOKENS, "logprobs": [-1.0, float("nan")]}, "logprobs[1]"),
        ({**TOKENS, "logprobs": [-1.0, 0.5]}, "logprobs[1]"),
        ({**TEXT, "logprobs": [-1.0]}, "logprobs"),
        ({**TOKENS, "reward": float("inf")}, "reward"),
        ({**TOKENS, "step_id": ""}, "step_id"),
        ({**TOKENS, "step_id": "a\nb"}, "step_id"),
        ({**TOKENS, "step_id": "x" * 257}, "step_id"),
        ({**TOKENS, "policy_version": 2**63}, "policy_version"),
        ({**TOKENS, "source": "guess"}, "source"),
        ({**TOKENS, "split": "test"}, "split"),
        ({**TOKENS, "started_at": datetime(2026, 1, 1)}, "started_at"),  # noqa: DTZ001 - no zone is the point
        ({**TOKENS, "metadata": {"a": float("nan")}}, "metadata"),
        ({**TOKENS, "metadata": {"a": "\ud800"}}, "metadata"),
        ({**TOKENS, "metadata": {"a": object()}}, "metadata"),
        ({**TOKENS, "metadata": {"a": 2**64}}, "metadata"),
        ({**TOKENS, "metadata": {"a": -(2**63) - 1}}, "metadata"),
        ({**TOKENS, "metadata": {"a": [*range(100), 2**64]}}, "metadata"),
        ({**TOKENS, "metadata": {"a": [-(2**63) - 1, *range(100)]}}, "metadata"),
        ({**TOKENS, "metadata": {"a": [*"many words " * 10, 2**64]}}, "metadata"),
        ({**TOKENS, "metadata": {"a": [*([],) * 100, nested(MAX_DEPTH)]}}, "metadata"),
        ({**TOKENS, "metadata": {"a": nested(MAX_DEPTH)}}, "metadata"),
        ({**TEXT, "messages": [{"role": "user", "content": nested(100_000)}]}, "messages"),
        ({**TOKENS, "untrainable_reason": "\ud800"}, "untrainable_reason"),
        ({**TOKENS, "rewards": 1}, "rewards"),
    ],
)
def test_a_bad_step_is_refused_by_the_fields_name(fields: dict[str, Any], field: str) -> None:
    error = refused(Step, **fields)
    assert error.field == field and error.reason


def test_what_is_at_the_limits_is_taken() -> None:
    many = [-(2**63), *range(100), 2**64 - 1]
    metadata = {"big": 2**64 - 1, "small": -(2**63), "many": many, "deep": nested(MAX_DEPTH - 1), "none": None}
    step = checked(Step, {**TOKENS, "metadata": metadata, "policy_version": -(2**63)})
    assert step.metadata == metadata
    assert checked(Step, json.loads(step.model_dump_json(exclude_none=True))) == step


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert refused(Step, **TOKENS, metadata=loop).field == "metadata"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(deadline=None)
@given(
    prompt=st.lists(st.integers(0, 2**31 - 1), min_size=1),
    response=st.lists(st.integers(0, 2**31 - 1)),
    metadata=st.dictionaries(st.text(), JSON),
)
def test_a_step_survives_its_own_json(prompt: list[int], response: list[int], metadata: dict[str, Any]) -> None:
    step = checked(Step, {"prompt_ids": prompt, "response_ids": response, "metadata": metadata})
    assert Step.model_validate_json(step.model_dump_json(exclude_none=True)) == step


@pytest.mark.parametrize(
    ("fields", "kind", "target"),
    [
        ({"step_id": "s", "reward": 1}, "reward", ("step", "s")),
        ({"trajectory_id": "t", "label": "solved"}, "label", ("trajectory", "t")),
        ({"group_id": "g", "score": 0.5, "name": "style"}, "score", ("group", "g")),
        ({"response_id": "r", "rating": 4, "scale": 5}, "rating", ("response", "r")),
        ({"step_id": "s", "rejected_id": "other"}, "preference", ("step", "s")),
        ({"step_id": "s", "correction": "better"}, "correction", ("step", "s")),
        ({"step_id": "s", "comment": "hm"}, "comment", ("step", "s")),
        ({"step_id": "s", "reward": 0, "comment": "why"}, "reward", ("step", "s")),
        ({"trajectory_id": "t", "retract": "label", "comment": "misread"}, "label", ("trajectory", "t")),
        ({"step_id": "s", "trainable": False}, "trainable", ("step", "s")),
        ({"group_id": "g", "undo": "f", "comment": "misclicked"}, "undo", ("group", "g")),
    ],
)
def test_feedback_says_one_thing_about_one_target(fields: dict[str, Any], kind: str, target: tuple[str, str]) -> None:
    feedback = checked(Feedback, fields)
    assert (feedback.kind, feedback.target) == (kind, target)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"reward": 1}, "step_id"),
        ({"step_id": "s", "group_id": "g", "reward": 1}, "step_id"),
        ({"step_id": "s"}, "reward"),
        ({"step_id": "s", "reward": 1, "label": "x"}, "label"),
        ({"step_id": "s", "rating": 4}, "scale"),
        ({"step_id": "s", "rating": 6, "scale": 5}, "scale"),
        ({"step_id": "s", "rating": -1, "scale": 0}, "scale"),
        ({"step_id": "s", "reward": float("nan")}, "reward"),
        ({"step_id": "s", "reward": "much"}, "reward"),
        ({"step_id": "s", "retract": "label", "reward": 1}, "retract"),
        ({"step_id": "s", "retract": "opinion"}, "retract"),
        ({"retract": "label"}, "step_id"),
        ({"step_id": "s", "retract": "undo"}, "retract"),
        ({"step_id": "s", "undo": "f", "trainable": True}, "undo"),
        ({"trajectory_id": "t", "trainable": False}, "trainable"),
        ({"response_id": "r", "trainable": True}, "trainable"),
    ],
)
def test_bad_feedback_is_refused_by_the_fields_name(fields: dict[str, Any], field: str) -> None:
    assert refused(Feedback, **fields).field == field


def test_a_trajectory() -> None:
    assert checked(Trajectory, {}).state == "open"
    assert refused(Trajectory, state="ended").field == "state"
    assert refused(Trajectory, marks={"p": -1}).field == "marks.p"


def test_what_is_no_object_is_refused() -> None:
    for values in (None, 1, "text", [1]):
        with pytest.raises(InvalidRecord):
            checked(Step, values)


def test_a_record_cannot_be_changed() -> None:
    step = checked(Step, TOKENS)
    with pytest.raises(ValueError, match="frozen"):
        step.reward = 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_absent_fields_are_left_out_and_given_nulls_stay() -> None:
    step = Step(
        step_id="s",
        messages=[{"role": "assistant", "content": None}],
        response={"role": "assistant", "content": "ü"},
        metadata={"a": [None, {"b": None}]},
    )
    assert json.loads(encoded(step)) == {
        "step_id": "s",
        "messages": [{"role": "assistant", "content": None}],
        "response": {"role": "assistant", "content": "ü"},
        "metadata": {"a": [None, {"b": None}]},
        "status": "ok",
        "source": "engine",
        "trainable": True,
    }


def test_it_is_read_back_as_it_was() -> None:
    step = Step(prompt_ids=[1], response_ids=[2], logprobs=[-0.1], metadata={"big": 2**64 - 1, "float": 0.1})
    assert Step.model_validate_json(encoded(step)) == step


@pytest.mark.parametrize("wrong", [[], [True], [-1], [2**31], [2**32 + 1], [1.0], ["1"], [None]])
def test_a_list_that_is_not_of_ids(wrong: list[Any]) -> None:
    assert checked_ids(wrong) is None
    if wrong != [True]:  # which it leaves to whoever calls
        assert packed_ids(wrong) is None


def test_ids_that_were_checked_are_packed_as_well() -> None:
    given = [0, 7, 2**31 - 1]
    ids = checked_ids(given)
    assert ids is not None and ids == given and checked_ids(ids) is ids
    assert ids.packed.tolist() == given and ids.packed.itemsize == 4
    step = Step(prompt_ids=given, response_ids=[1])
    given.append(5)
    assert step.prompt_ids == [0, 7, 2**31 - 1], "what was submitted stays as it was"
    assert checked(Step, step.model_dump()) == step


@pytest.mark.parametrize("value", [0, 1, 1.0, "no", "false", [True], np.int64(0)])
def test_whether_a_step_may_be_trained_on_is_not_guessed(value: Any) -> None:
    assert refused(Step, **TOKENS, trainable=value).field == "trainable"


@pytest.mark.parametrize("value", [False, np.bool_(False)])
def test_booleans_of_either_kind_are_taken(value: Any) -> None:
    assert checked(Step, {**TOKENS, "trainable": value}).trainable is False
