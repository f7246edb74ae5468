"""Steps of turns that were steered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import NoStep, Unparseable, parse
from stepwell.exchange._responses.dialect import OpenAIResponses
from stepwell.exchange._steering import MAX_STEERS
from stepwell.sdk.records import Step

from .test_dialect import MESSAGE, answer, events, exchange

SETTINGS: dict[str, Any] = {
    "instructions": "be brief",
    "tools": [{"type": "function", "name": "add", "strict": True}],
    "temperature": 1.0,
    "previous_response_id": "resp_0",
}
INCOMPLETE = "the prompt is incomplete: "
NO_IDS = "the engine gave no token ids"


def steer(given: Any, target: str | None = "resp_0") -> dict[str, Any]:
    return {"type": "response.steer", "previous_response_id": target, "input": given}


def create(**fields: Any) -> dict[str, Any]:
    return {"type": "response.create", "model": "m", **fields}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def step_of(frames: list[Any], *before: dict[str, Any], **fields: Any) -> Step:
    """The step of a request of these frames, answered after the events `before`."""
    asked = b"\n".join(json.dumps(frame).encode() for frame in frames)
    told = [*before, *events(answer(MESSAGE, **fields))]
    (step,) = parse(exchange(told, asked=asked, method="WEBSOCKET"))
    return step


def said(step: Step) -> list[tuple[str, str]]:
    assert step.messages is not None
    return [(message["role"], part["text"]) for message in step.messages for part in message["content"]]


def given_back(given: Any, target: str = "resp_0") -> dict[str, Any]:
    return {"type": "response.steer.failed", "steer": {"input": given, "previous_response_id": target}, "error": {}}


def test_a_successor_continues_what_was_steered_with_the_settings_it_inherits() -> None:
    step = step_of([steer("rather left")], **SETTINGS)
    assert step.continues == "response:resp_0"
    assert said(step) == [("system", "be brief"), ("user", "rather left")]
    assert step.tools == SETTINGS["tools"]
    assert (step.status, step.response_id, step.model_asked, step.sampling) == ("ok", "resp_1", None, None)
    assert (step.trainable, step.untrainable_reason) == (False, NO_IDS)
    rebuilt = OpenAIResponses().request_of(step)
    assert {name: rebuilt[name] for name in steer("")} == steer("rather left")
    again = OpenAIResponses().answer_of([step])
    assert {name: again[name] for name in SETTINGS} == SETTINGS
    assert step_of([steer("left")], **{**SETTINGS, "instructions": None}).untrainable_reason == NO_IDS


def test_ids_of_a_steered_turn_may_be_trained_on() -> None:
    raw = {
        "input_messages": [{"type": "raw_message_tokens", "message": "<user>", "tokens": [5]}],
        "output_messages": [{"type": "raw_message_tokens", "message": "four", "tokens": [8, 9]}],
    }
    assert step_of([steer("left")], **SETTINGS, **raw).trainable
    assert not step_of([steer("left")], **{**SETTINGS, "previous_response_id": "other"}, **raw).trainable


def test_several_inputs_are_one_prompt_in_their_order() -> None:
    step = step_of([steer("a"), steer([user("b"), user("c")])], **SETTINGS)
    assert said(step) == [("system", "be brief"), *(("user", text) for text in "abc")]
    assert step.untrainable_reason == NO_IDS


def test_what_waited_goes_before_the_requests_own_input() -> None:
    result = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    frames = [steer("a"), steer("b"), create(input=[result, user("c")], previous_response_id="resp_0")]
    step = step_of(frames)
    assert step.messages is not None and [one["role"] for one in step.messages] == ["user", "user", "tool", "user"]
    assert (step.continues, step.model_asked, step.untrainable_reason) == ("response:resp_0", "m", NO_IDS)
    inner = {"type": "response.create", "response": {"input": "c", "previous_response_id": "resp_0"}}
    assert said(step_of([steer("a"), inner])) == [("user", "a"), ("user", "c")]


def test_what_the_server_gave_back_before_it_answered_was_not_seen() -> None:
    frames = [steer("a"), steer([user("b")]), create(input="c", previous_response_id="resp_0")]
    step = step_of(frames, given_back([{"content": "b", "role": "user", "type": "message"}]))
    assert said(step) == [("user", "a"), ("user", "c")] and step.untrainable_reason == NO_IDS
    alone = step_of([steer("a"), create(input="c")], given_back("a"))
    assert said(alone) == [("user", "c")] and (alone.continues, alone.untrainable_reason) == (None, NO_IDS)
    late = step_of(frames, given_back("of another", target="resp_1"))
    assert [text for _, text in said(late)] == ["a", "b", "c"] and late.untrainable_reason == NO_IDS
    unclear = step_of(frames, given_back("written otherwise"))
    assert (unclear.untrainable_reason or "").startswith(INCOMPLETE)


def test_a_successor_was_created_for_all_that_it_took() -> None:
    """What is given back then came too late for it."""
    step = step_of([steer("a")], given_back("a"), **SETTINGS)
    assert said(step)[-1] == ("user", "a") and step.untrainable_reason == NO_IDS


@pytest.mark.parametrize(
    ("frames", "answered", "continues"),
    [
        ([steer("a", None)], {"previous_response_id": None}, None),
        ([steer("a"), steer("b", "resp_9")], {}, "response:resp_0"),
        ([steer("a"), steer("b", "resp_9")], {"previous_response_id": None}, "response:resp_0"),
        ([steer("a"), create(input="b")], {"previous_response_id": None}, "response:resp_0"),
        ([steer("a"), create(input="b", previous_response_id="resp_9")], {}, "response:resp_9"),
        ([steer("a")], {"instructions": [user("x")]}, "response:resp_0"),
        ([steer("a")], {"tools": None}, "response:resp_0"),
        ([steer(None)], {}, "response:resp_0"),
        ([steer("a")] * MAX_STEERS, {}, "response:resp_0"),
    ],
)
def test_what_is_not_known_makes_the_prompt_incomplete_and_is_still_a_step(
    frames: list[Any], answered: dict[str, Any], continues: str | None
) -> None:
    step = step_of(frames, **{**SETTINGS, **answered})
    assert step.continues == continues
    assert not step.trainable and (step.untrainable_reason or "").startswith(INCOMPLETE)
    assert step.response is not None and step.response["content"][0]["text"] == "four"


def test_the_answer_names_what_is_continued_where_the_frames_do_not() -> None:
    assert step_of([steer("a", None)], **SETTINGS).continues == "response:resp_0"
    step = step_of([steer("a"), create(input="b")], **SETTINGS)
    assert (step.continues, step.untrainable_reason) == ("response:resp_0", NO_IDS)


def test_a_response_that_was_steered_is_whole() -> None:
    step = step_of([create(input="go")], status="incomplete", incomplete_details={"reason": "steered"})
    assert (step.status, step.finish_reason) == ("ok", "incomplete")


def test_a_warm_up_with_an_incomplete_prompt_is_not_remembered() -> None:
    for target, remembered in (("resp_0", True), ("resp_9", False)):
        with pytest.raises(NoStep) as caught:
            step_of([steer("a", target), create(generate=False, input=[], previous_response_id="resp_0")])
        assert (caught.value.context is not None) is remembered


def test_what_is_no_steered_request_is_unparseable_or_no_step() -> None:
    with pytest.raises(NoStep):
        step_of([create(input="x"), steer("a")])
    with pytest.raises(NoStep):
        step_of([steer("a"), {"type": "response.cancel"}])
    for given in (3, [3]):
        with pytest.raises(Unparseable):
            step_of([steer("a"), steer(given)], **SETTINGS)
    for asked in (b"", b"\n", b'{"type": "response.steer"}\n[]', b'{"type": "response.steer"}\n{'):
        with pytest.raises(Unparseable):
            parse(exchange(events(answer(MESSAGE)), asked=asked, method="WEBSOCKET"))
    deep: Any = "x"
    for _ in range(600):
        deep = [deep]
    with pytest.raises(Unparseable):
        step_of([steer(deep), create(input="x", previous_response_id="resp_0")])


@pytest.mark.parametrize("odd", [3, [3], [{"type": "response.steer.failed", "steer": 3}]])
def test_events_of_the_answers_own_are_no_crash(odd: Any) -> None:
    step_of([steer("a"), create(input="x", previous_response_id="resp_0")], events=odd)
