"""Bodies from steps: what was asked and answered, as far as meaning goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Exchange, Request, Response, parse
from stepwell.exchange._anthropic.dialect import AnthropicMessages
from stepwell.sdk.records import Step

DIALECT = AnthropicMessages()
ANSWER = {
    "id": "msg",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "ho"}],
    "stop_reason": "end_turn",
    "usage": {"output_tokens": 1},
}
VERTEX = "https://h/v1/projects/p/locations/l/publishers/anthropic/models/claude@1:rawPredict"


def step_of(asked: dict[str, Any], answer: Any = ANSWER, url: str = "http://h/v1/messages", status: int = 200) -> Step:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    request = Request("POST", url, [], json.dumps(asked).encode(), 1)
    (step,) = parse(Exchange("x", "anthropic.messages", request, Response(status, [], body, "complete", 2)))
    return step


def test_a_request() -> None:
    asked = {
        "model": "claude",
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}], "name": "n"}],
        "tools": [{"name": "f", "input_schema": {}}],
        "max_tokens": 5,
        "stream": True,
        "metadata": {"user_id": "u"},
    }
    assert DIALECT.request_of(step_of(asked)) == asked


def test_texts_come_back_as_blocks() -> None:
    asked = {"model": "claude", "system": "s", "messages": [{"role": "user", "content": "hi"}]}
    assert DIALECT.request_of(step_of(asked)) == {
        "model": "claude",
        "system": [{"type": "text", "text": "s"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


@pytest.mark.parametrize("system", [None, "s"])
def test_a_system_message_of_the_list_stays_in_it(system: str | None) -> None:
    inner = {"role": "system", "content": [{"type": "text", "text": "inner"}]}
    asked = {"model": "claude", "messages": [inner, inner]} | ({"system": system} if system else {})
    rebuilt = DIALECT.request_of(step_of(asked))
    assert (rebuilt["messages"], "system" in rebuilt) == ([inner, inner], bool(system))


def test_a_model_of_the_path_is_none_of_the_body() -> None:
    asked = {"anthropic_version": "vertex-2023-10-16", "messages": []}
    assert DIALECT.request_of(step_of(asked, url=VERTEX)) == asked
    assert DIALECT.request_of(step_of({**asked, "model": "m"}, url=VERTEX)) == {**asked, "model": "m"}


def test_an_answer() -> None:
    body = {**ANSWER, "stop_sequence": "x", "container": {"id": "c"}}
    assert DIALECT.answer_of([step_of({"messages": []}, body)]) == body


def test_an_error() -> None:
    body = {"type": "error", "error": {"type": "api_error", "message": "no"}, "request_id": "r"}
    for status in (200, 500):
        assert DIALECT.answer_of([step_of({"messages": []}, body, status=status)]) == body


def test_an_error_after_content_stands_beside_it() -> None:
    events = [
        {"type": "message_start", "message": {**ANSWER, "content": [], "stop_reason": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "par"}},
        {"type": "error", "error": {"type": "overloaded_error"}},
    ]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    rebuilt = DIALECT.answer_of([step_of({"messages": []}, stream)])
    assert (rebuilt["content"], rebuilt["error"]) == ([{"type": "text", "text": "par"}], {"type": "overloaded_error"})
    assert "stop_reason" not in rebuilt
    begun = "".join(f"data: {json.dumps(event)}\n\n" for event in (events[0], events[2])).encode()
    assert DIALECT.answer_of([step_of({"messages": []}, begun)])["id"] == "msg"


@pytest.mark.parametrize("given", [{}, {"a": 1.5}, "5", '"x"', '{"cut', [1], 5, True])
def test_an_input_of_any_kind(given: Any) -> None:
    body = {**ANSWER, "content": [{"type": "tool_use", "id": "t", "name": "f", "input": given}]}
    assert DIALECT.answer_of([step_of({"messages": []}, body)]) == body


words = st.text(max_size=6)
values = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
no_extra: dict[str, Any] = {}
extras = st.just(no_extra) | st.fixed_dictionaries({"cache_control": st.just({"type": "ephemeral"}), "x": values})


def block(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    made = st.fixed_dictionaries({"type": st.just(kind), **fields})
    return st.builds(lambda one, extra: {**one, **extra}, made, extras)


objects = st.dictionaries(words, values, max_size=3)
media = st.fixed_dictionaries({"type": st.sampled_from(["base64", "text", "url"]), "data": words})
texts = block("text", text=words)
shown = texts | block("image", source=media) | block("document", source=media) | block("search_result", title=words)
blocks = (
    shown
    | block("thinking", thinking=words, signature=words)
    | block("thinking", thinking=words)
    | block("redacted_thinking", data=words.filter(bool))
    | block("tool_use", id=words, name=words, input=objects)
    | block("tool_result", tool_use_id=words, content=st.lists(shown, max_size=2), is_error=st.booleans())
    | block("server_tool_use", id=words, name=words, input=objects)
    | block("web_search_tool_result", tool_use_id=words, content=values)
    | block("unheard_of", y=values)
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]), "content": st.lists(blocks, max_size=3)}
)


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=2) | st.none(), st.lists(messages, max_size=3))
def test_every_conversation_comes_back(system: list[Any] | None, said: list[Any]) -> None:
    asked = {"model": "claude", "messages": said} | ({"system": system} if system else {})
    assert DIALECT.request_of(step_of(asked)) == asked


@settings(deadline=None)
@given(st.lists(blocks, max_size=4))
def test_every_answer_comes_back(content: list[Any]) -> None:
    body = {**ANSWER, "content": content}
    assert DIALECT.answer_of([step_of({"messages": []}, body)]) == body


streamed = (
    block("text", text=words)
    | block("thinking", thinking=words, signature=words)
    | block("tool_use", id=words, name=words, input=objects)
)


@settings(deadline=None)
@given(st.lists(streamed, max_size=3), st.lists(st.integers(0, 20), min_size=1, max_size=8))
def test_a_stream_comes_back_as_the_plain_body_it_stands_for(content: list[Any], numbers: list[int]) -> None:
    """Cut anywhere, blocks in any order that keeps each one's own. `numbers`: where, and which."""
    choice = cycle(numbers)
    pieces = [list(pieces_of(number, made, choice)) for number, made in enumerate(content)]
    events: list[Any] = [{"type": "message_start", "message": {**ANSWER, "content": [], "stop_reason": None}}]
    events += [opening.pop(0) for opening in pieces]
    while left := [some for some in pieces if some]:
        events.append(left[next(choice) % len(left)].pop(0))
    events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    assert DIALECT.answer_of([step_of({"messages": []}, body)]) == {**ANSWER, "content": content}


def pieces_of(number: int, made: dict[str, Any], choice: Iterator[int]) -> Iterator[dict[str, Any]]:
    sources = {
        "text": [("text", "text_delta", "text")],
        "thinking": [("thinking", "thinking_delta", "thinking"), ("signature", "signature_delta", "signature")],
        "tool_use": [("input", "input_json_delta", "partial_json")],
    }[made["type"]]
    empty = {name: {} if name == "input" else "" for name, _, _ in sources}
    yield {"type": "content_block_start", "index": number, "content_block": {**made, **empty}}
    for name, delta, source in sources:
        whole = json.dumps(made[name]) if name == "input" else made[name]
        cut = next(choice)
        for piece in filter(None, (whole[:cut], whole[cut:])):
            yield {"type": "content_block_delta", "index": number, "delta": {"type": delta, source: piece}}
    yield {"type": "content_block_stop", "index": number}
