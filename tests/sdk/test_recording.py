"""A provider's answer, handed in as its SDK gave it."""

from __future__ import annotations

import json
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from google.genai import types as gemini
from tests.sdk.parsing import steps_of

from stepwell import sdk
from stepwell.errors import InvalidRecord
from stepwell.sdk._recording import ANSWER, answer_item
from stepwell.testing import recorded

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Two and two?"}]
CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-x",
    "choices": [
        {"index": n, "finish_reason": "stop", "logprobs": None, "message": {"role": "assistant", "content": text}}
        for n, text in enumerate(["4", "four"])
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
}
RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1.0,
    "model": "gpt-x",
    "status": "completed",
    "instructions": "Be brief.",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "4", "annotations": []}],
        }
    ],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": {
        "input_tokens": 9,
        "output_tokens": 1,
        "total_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "text", "text": "4"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"first_one": 2}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 9, "output_tokens": 1},
}
GEMINI: dict[str, Any] = {
    "candidates": [
        {
            "content": {
                "role": "model",
                "parts": [{"text": "4"}, {"functionCall": {"name": "add", "args": {"first_one": 2}}}],
            },
            "finishReason": "STOP",
            "index": 0,
        }
    ],
    "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1, "totalTokenCount": 10},
    "modelVersion": "gemini-x",
    "responseId": "r1",
}
ANSWERS = {
    "chat": CHAT,
    "chat object": openai.types.chat.ChatCompletion.model_validate(CHAT),
    "response": RESPONSE,
    "response object": openai.types.responses.Response.model_validate(RESPONSE),
    "message": MESSAGE,
    "message object": anthropic.types.Message.model_validate(MESSAGE),
    "gemini": GEMINI,
    "gemini object": gemini.GenerateContentResponse.model_validate(GEMINI),
    "gemini, dumped in Python's names": gemini.GenerateContentResponse.model_validate(GEMINI).model_dump(mode="json"),
}


def sent(**fields: Any) -> dict[str, Any]:
    item, _ = answer_item(fields, None)
    found: dict[str, Any] = json.loads(item.whole())
    return found


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_read_by_the_one_parser(name: str) -> None:
    step = steps_of(sent(openai_response=ANSWERS[name], messages=MESSAGES, call_id="c"))[0]
    assert (step.step_id, step.call_id, step.status) == ("c.0", "c", "ok")
    assert step.response is not None and step.response["content"][0]["text"] == "4"
    said = [(message["role"], message["content"][0]["text"]) for message in step.messages or []]
    assert said == [("system", "Be brief."), ("user", "Two and two?")]
    assert (step.model or "").endswith("-x") and step.usage
    if "add" in json.dumps(step.response):
        assert "first_one" in json.dumps(step.response)


def test_what_is_said_beside_it_arrives() -> None:
    tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    fields: dict[str, Any] = {
        "prompt": "p",
        "group": "g",
        "trajectory": "t",
        "policy_version": 7,
        "metadata": {"a": "x"},
    }
    step, other = steps_of(
        sent(
            openai_response=CHAT, messages=MESSAGES, tools=tools, sampling={"temperature": 0.5}, split="eval", **fields
        )
    )
    assert (step.prompt_id, step.group_id, step.trajectory_id, step.split) == ("p", "g", "t", "eval")
    assert step.policy_version == 7 and step.metadata == {"a": "x"}
    assert step.sampling == {"temperature": 0.5} and (step.tools or [{}])[0]["function"]["name"] == "add"
    assert other.step_id.endswith(".1") and other.call_id == step.call_id


def test_a_history_of_objects_and_a_plain_question() -> None:
    object_ = openai.types.chat.ChatCompletion.model_validate(CHAT)
    history: list[Any] = [*MESSAGES, object_.choices[0].message, {"role": "user", "content": "Sure?"}]
    (step, _) = steps_of(sent(openai_response=object_, messages=history))
    assert [message["role"] for message in step.messages or []] == ["system", "user", "assistant", "user"]
    (step, _) = steps_of(sent(openai_response=object_, messages="Two and two?"))
    assert [message["role"] for message in step.messages or []] == ["user"]
    own = [{"role": "user", "parts": [{"text": "Two and two?"}]}]
    (step,) = steps_of(sent(openai_response=GEMINI, messages=own))
    assert [message["role"] for message in step.messages or []] == ["user"]


async def _forgotten() -> None: ...


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({ANSWER: 7}, ANSWER, "type int"),
        ({ANSWER: {}}, ANSWER, "unknown form"),
        ({ANSWER: {"object": "list", "data": []}}, ANSWER, "object, data"),
        ({ANSWER: {**CHAT, "object": "chat.completion.chunk"}}, ANSWER, "stream"),
        ({ANSWER: iter([])}, ANSWER, "stream"),
        ({ANSWER: {**CHAT, "choices": []}}, f"{ANSWER}.choices", "empty"),
        ({ANSWER: {**RESPONSE, "output": None}}, f"{ANSWER}.output", "no list"),
        ({ANSWER: CHAT, "messages": None}, "messages", "answers"),
        ({ANSWER: CHAT, "messages": [7]}, "messages[0]", "int"),
        ({ANSWER: GEMINI, "messages": [{"role": "user", "content": [{}]}]}, "messages[0]", "parts"),
        ({ANSWER: {**CHAT, "seen": {1}}}, ANSWER, "JSON"),
        ({ANSWER: CHAT, "messages": [{"role": "user", "content": {1}}]}, "messages", "JSON"),
        ({ANSWER: CHAT, "response": "x"}, "response", "leave one"),
        ({ANSWER: CHAT, "logprobs": [1.0]}, "logprobs", "leave one"),
        ({ANSWER: CHAT, "reward": float("nan")}, "reward", "finite"),
        ({ANSWER: CHAT, "split": "test"}, "split", "train"),
        ({ANSWER: CHAT, "metadata": {"runId": 1}}, "metadata.runId", "a-z"),
        ({ANSWER: CHAT, "step": "s"}, "step_id", "call_id"),
        ({ANSWER: CHAT, "call_id": "x" * 250}, "call_id", "240"),
        ({ANSWER: CHAT, "call_id": 7}, "call_id", "text"),
    ],
)
def test_what_is_wrong_is_named_at_once(fields: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(InvalidRecord, match=reason) as caught:
        answer_item({"messages": MESSAGES, **fields}, None)
    assert caught.value.field == field


def test_an_answer_that_was_not_awaited() -> None:
    answer = _forgotten()
    with pytest.raises(InvalidRecord, match="not awaited"):
        answer_item({ANSWER: answer, "messages": MESSAGES}, None)
    answer.close()


def test_the_reward_given_with_it_is_feedback_on_its_first_choice() -> None:
    with recorded() as records:
        with sdk.trajectory("t", prompt="p"):
            step = sdk.submit_step(openai_response=CHAT, messages=MESSAGES, reward=1.0)
        assert sdk.submit_step(openai_response=CHAT, messages=MESSAGES, step="c.0") == "c.0"
        (one, other), (said,) = records.exchanges, records.feedback
        assert step == f"{one['exchange_id']}.0" == said["step_id"] and said["reward"] == 1.0
        assert steps_of(one)[0].trajectory_id == "t" and steps_of(one)[0].prompt_id == "p"
        assert other["exchange_id"] == "c" and "trajectory_id" not in said


def test_parts_of_an_answer_are_taken_as_objects_too() -> None:
    answer = openai.types.chat.ChatCompletion.model_validate(CHAT)
    message = answer.choices[0].message
    with recorded() as records:
        sdk.submit_step(messages=[*MESSAGES, message, MESSAGES[1]], response=message, usage=answer.usage)
        (step,) = records.steps
        assert step["messages"][2] == step["response"] == {"role": "assistant", "content": "4"}
        assert step["usage"]["total_tokens"] == 10
    with pytest.raises(InvalidRecord) as caught:
        sdk.submit_step(messages=[object()], response="x")
    assert caught.value.field.startswith("messages")


def test_a_real_gateway_takes_it(gateway: Any, client: sdk.Client) -> None:
    client.submit_step(openai_response=CHAT, messages=MESSAGES, call_id="c", reward=0.5)
    flushed = client.flush()
    assert (flushed.acknowledged, flushed.refused) == (2, 0)
    assert [record.id for record in gateway.records()][:2] == ["c", "c.response"]
