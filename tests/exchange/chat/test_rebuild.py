"""Steps back to chat bodies, and chat bodies through steps and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Exchange, dialect_for, parse
from stepwell.exchange._canonical import is_part
from stepwell.exchange._chat.messages import canonical_message
from stepwell.exchange._chat.rebuild import answer_body, chat_message, request_body
from stepwell.sdk.records import Step

from ..conftest import make_exchange
from .test_messages import chat_message as anything_like_a_message

Steps = Callable[..., Sequence[Step]]
Make = Callable[..., Exchange]
Stream = Callable[..., bytes]
ANSWER: dict[str, Any] = {"id": "r", "model": "m", "object": "chat.completion", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "ho"}, "finish_reason": "stop"}]}  # fmt: skip

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "developer", "content": "be kind", "name": "boss"},
    {"role": "user", "content": [
        {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA==", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}},
        {"type": "file", "file": {"file_data": "eA==", "filename": "f"}},
        {"type": "video_url", "video_url": {"url": "http://v"}},
    ]},
    {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "reasoning_content": "hm", "content": "so", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1'}},
        {"id": "2", "type": "custom", "custom": {"name": "g", "input": "x"}},
        {"id": "3", "type": "function", "index": 2, "function": {"name": "h", "arguments": "{}"}, "extra_content": {}},
    ]},
    {"role": "tool", "tool_call_id": "1", "content": "42"},
    {"role": "tool", "tool_call_id": "2", "name": "g", "content": [{"type": "text", "text": "a"},
                                                                   {"type": "text", "text": "b"}]},
    {"role": "tool", "name": "h", "content": "43"},
    {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "44"},
    {"role": "assistant", "reasoning": "r", "reasoning_content": "r", "refusal": "no"},
    {"role": "assistant", "reasoning": "r", "reasoning_details": [{"type": "reasoning.text", "text": "r", "index": 0}]},
    {"role": "assistant", "reasoning_details": [{"type": "reasoning.text", "text": "r"}], "audio": {"id": "a"}},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}], "closed": True},
                                      {"type": "text", "text": "x"}], "prefix": True},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "n"}, {"type": "text", "text": "x"}]},
]  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_every_kind_of_message_comes_back(message: dict[str, Any]) -> None:
    assert chat_message(canonical_message(message)) == message


def test_a_request_comes_back_without_what_the_route_added(steps: Steps) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    asked = {"model": "asked", "messages": MESSAGES, "tools": tools, "temperature": 0.5, "stream": False, "user": "u",
             "metadata": {"k": "v"}, "tool_choice": "auto", "functions": [{"name": "old"}]}  # fmt: skip
    (step,) = steps(ANSWER, asked={**asked, "logprobs": True}, added=("logprobs",))
    assert request_body(step) == asked


def test_functions_alone_come_back_as_functions(steps: Steps) -> None:
    functions = [{"name": "f", "parameters": {}}]
    (step,) = steps(ANSWER, asked={"functions": functions})
    assert step.tools == functions and request_body(step)["functions"] == functions
    assert "tools" not in request_body(step)


def test_an_answer_of_several_choices_with_all_its_fields_comes_back(steps: Steps) -> None:
    body = {
        "id": "r", "model": "m", "object": "chat.completion", "created": 1, "service_tier": "default",
        "usage": {"completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 0}},
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "a", "annotations": [{"type": "url_citation"}]},
             "finish_reason": "stop", "logprobs": {"content": [{"token": "a", "logprob": -1, "top_logprobs": []}]}},
            {"index": 2, "message": {"role": "assistant", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
             "finish_reason": "tool_calls", "content_filter_results": {"hate": {"filtered": False}}},
        ],
    }  # fmt: skip
    assert answer_body(steps(body)) == body


def test_ids_and_logprobs_come_back_as_the_engine_gave_them(steps: Steps) -> None:
    entries = [{"token": "token_id:5", "logprob": -1.0}, {"token": "token_id:6", "logprob": -2.0}]
    choice = {**ANSWER["choices"][0], "token_ids": [5, 6], "logprobs": {"content": entries}}
    body = {**ANSWER, "prompt_token_ids": [1, 2], "choices": [choice]}
    (step,) = steps(body)
    assert step.trainable and answer_body([step]) == body
    choice["logprobs"] = {"content": [{**entry, "top_logprobs": [entry, entry]} for entry in entries]}
    assert answer_body(steps(body)) == body  # alternatives are kept, whatever else is known


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "no", "code": 1}}, 400),
        ({"error": {"message": "no"}, "user_id": "u"}, 502),
        ({"id": "r", "error": {"code": 1}}, 200),
        ({"object": "error", "message": "no", "code": 400}, 200),
    ],
)
def test_an_error_comes_back_without_choices(body: dict[str, Any], status: int, steps: Steps) -> None:
    assert answer_body(steps(body, status=status)) == body


def test_a_stream_comes_back_as_the_plain_answer_it_is(steps: Steps, stream: Stream, exchange: Make) -> None:
    chunks: list[dict[str, Any]] = [{"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in (
        {"role": "assistant", "reasoning": "h"}, {"reasoning": "m"}, {"content": "s"}, {"content": "o"},
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]})]  # fmt: skip
    chunks += [
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        {"choices": [], "usage": {"x": 1}},
    ]
    streamed = steps(stream(*chunks))
    assert answer_body(streamed) == {
        "id": "r", "model": "m", "object": "chat.completion", "usage": {"x": 1},
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "so", "reasoning": "hm",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}],
    }  # fmt: skip
    plain = exchange(answer_body(streamed))
    assert parse(plain) == streamed


def test_the_dialect_offers_both(steps: Steps) -> None:
    dialect = dialect_for("POST", "/v1/chat/completions")
    made = steps(ANSWER)
    assert dialect is not None
    assert dialect.answer_of(made) == ANSWER
    assert dialect.request_of(made[0]) == {"model": "asked", "messages": [{"role": "user", "content": "hi"}]}


word = st.text(min_size=1, max_size=5)
call = st.fixed_dictionaries(
    {"id": word, "type": st.just("function"), "function": st.fixed_dictionaries({"name": word, "arguments": word})}
)
text_part: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"type": st.just("text"), "text": word}, optional={"cache_control": st.just({})}
)
image_part = st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": word})})
content = word | st.lists(text_part | image_part, min_size=2, max_size=3)
said = st.one_of(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "developer"]), "content": content}),
    st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": word, "content": content}),
    st.fixed_dictionaries(
        {"role": st.just("assistant")},
        optional={
            "content": word,
            "reasoning": word,
            "refusal": word,
            "tool_calls": st.lists(call, min_size=1, max_size=2),
            "function_call": st.fixed_dictionaries({"name": word, "arguments": word}),
            "name": word,
        },
    ),
)


@settings(max_examples=60)
@given(st.lists(said, max_size=4), st.lists(said, min_size=1, max_size=2))
def test_every_conversation_comes_back(asked: list[dict[str, Any]], answered: list[dict[str, Any]]) -> None:
    choices = [
        {"index": place, "message": {**message, "role": "assistant"}, "finish_reason": "stop"}
        for place, message in enumerate(answered)
        if message["role"] != "tool"
    ] or ANSWER["choices"]
    request = {"model": "m", "messages": asked, "temperature": 1}
    body = {"id": "r", "object": "chat.completion", "choices": choices}
    steps = parse(_exchange(request, body))
    assert request_body(steps[0]) == request
    assert answer_body(steps) == body


@given(anything_like_a_message)
def test_whatever_is_canonical_can_be_written_back(message: dict[str, Any]) -> None:
    try:
        canonical = canonical_message(message)
    except ValueError:
        return
    written = chat_message(canonical)
    assert json.loads(json.dumps(written)) == written
    assert all(is_part(part) for part in canonical_message(written)["content"])


def _exchange(request: dict[str, Any], body: dict[str, Any]) -> Exchange:
    made = make_exchange(body)
    return replace(made, request=replace(made.request, body=json.dumps(request).encode()))
