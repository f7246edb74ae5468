"""Models on Bedrock with OpenAI's chat protocol, and Mistral's variant of it."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._bedrock.chat import answer_from_body, answer_from_events, asked_from
from stepwell.exchange._bedrock.invoke import BedrockInvoke

from .frames import chunk, the_step

USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
CALL = {"id": "i", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
ASKED: dict[str, Any] = {
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "max_tokens": 5,
    "stream": False,
}
PLAIN: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "openai.gpt-oss-20b-1:0",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "ho", "tool_calls": [CALL]},
            "finish_reason": "tool_calls",
        }
    ],
    "usage": USAGE,
    "service_tier": "default",
}


def test_a_chat_is_a_step_and_comes_back() -> None:
    step = the_step(PLAIN, asked=ASKED, operation="invoke")
    assert step.messages == [
        {"role": "system", "content": [{"type": "text", "text": "s"}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    assert step.response is not None and step.response["content"] == [
        {"type": "text", "text": "ho"},
        {"type": "tool_call", "id": "i", "name": "f", "arguments": '{"a": 1}'},
    ]
    assert (step.finish_reason, step.usage, step.response_id) == ("tool_calls", USAGE, "chatcmpl-1")
    assert (step.model, step.model_asked) == ("openai.gpt-oss-20b-1:0", "some.model-v1:0")
    assert (step.tools, step.sampling) == (ASKED["tools"], {"max_tokens": 5})
    assert BedrockInvoke().request_of(step) == ASKED
    assert BedrockInvoke().answer_of([step]) == PLAIN


def test_a_model_in_the_body_comes_back_too() -> None:
    asked = {**ASKED, "model": "gpt-oss"}
    step = the_step(PLAIN, asked=asked, operation="invoke")
    assert step.model_asked == "some.model-v1:0"
    assert BedrockInvoke().request_of(step) == asked


def test_mistrals_words_for_the_same() -> None:
    answer = answer_from_body({"choices": [{"index": 0, "message": {"content": "ho"}, "stop_reason": "length"}]})
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.cut) == ("length", True)
    pieces = [
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "h"}, "stop_reason": None}]},
        {"choices": [{"index": 0, "message": {"content": "o"}, "stop_reason": "stop"}]},
    ]
    answer = answer_from_events(pieces, True)
    (choice,) = answer.choices
    assert choice.message["content"] == [{"type": "text", "text": "ho"}]
    assert (choice.finish_reason, choice.cut, answer.terminated) == ("stop", False, True)


def test_a_stream_of_chat_chunks() -> None:
    head = {"id": "chatcmpl-1", "model": "m", "object": "chat.completion.chunk"}
    deltas = [
        {"role": "assistant", "content": "", "reasoning": "hm"},
        {"content": "ho"},
        {"tool_calls": [{"index": 0, "id": "i", "type": "function", "function": {"name": "f", "arguments": '{"a'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}]},
    ]
    pieces = [chunk({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}) for delta in deltas]
    end = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}],
           "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1, "outputTokenCount": 2, "firstByteLatency": 3}}  # fmt: skip
    step = the_step(b"".join([*pieces, chunk(end)]), asked=ASKED, operation="invoke-with-response-stream")
    assert step.response is not None
    assert [part["type"] for part in step.response["content"]] == ["reasoning", "text", "tool_call"]
    assert step.response["content"][2]["arguments"] == '{"a": 1}'
    assert (step.status, step.finish_reason, step.response_id) == ("ok", "tool_calls", "chatcmpl-1")
    assert step.usage == {"inputTokenCount": 1, "outputTokenCount": 2}
    cut = the_step(b"".join(pieces[:3]), asked=ASKED, operation="invoke-with-response-stream", end="client_disconnect")
    assert cut.response is not None and cut.response["content"][2]["arguments"] == '{"a'
    assert (cut.status, cut.finish_reason) == ("client_disconnect", None)


@pytest.mark.parametrize("reason", ["length", "max_tokens"])
def test_a_limit_of_length_cuts(reason: str) -> None:
    (choice,) = answer_from_body({"choices": [{"message": {}, "finish_reason": reason}]}).choices
    assert choice.cut


@pytest.mark.parametrize(
    "body", [{}, {"choices": []}, {"choices": 5}, {"choices": [5]}, {"choices": [{"message": 5}]},
             {"choices": [{"message": {"content": 5}}]}]
)  # fmt: skip
def test_an_answer_that_is_none_is_unparseable(body: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        answer_from_body(body)


@pytest.mark.parametrize(
    "body", [{}, {"messages": 5}, {"messages": [5]}, {"messages": [{"role": "user", "content": 5}]}]
)
def test_a_request_that_is_none_is_unparseable(body: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        asked_from(body, None)
