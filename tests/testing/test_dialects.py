"""Every dialect says what the script says, in a form that capture reads back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import dialect_for, dialects
from stepwell.testing import ChatCall, Delivery, Reply, ToolCall
from stepwell.testing._dialects import new_dialects

from .dialogue import PLAIN, STREAMED, WAYS, Way, ask

TEXT = "Grüße 👋🏽 — 数据"
CALLS = [ToolCall("f", '{"ort":  "Zürich 🏔"}', "call_1"), ToolCall("g", '{"n": [1, 2.50]}', "call_2")]
TEXT_ONLY = ("openai.completions", "ollama.generate")
"""Without tools; completions shows the markup that was sampled."""
WITH_TOOLS = [way for way in WAYS if way.dialect not in TEXT_ONLY]


def each(ways: list[Way]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", ways, ids=lambda way: way.path)


def numbers(usage: Any) -> set[int]:
    """All counters, however deep."""
    if isinstance(usage, dict):
        return {number for inner in usage.values() for number in numbers(inner)}
    return {usage} if isinstance(usage, int) else set()


STOPPED = {
    "openai.chat": ("stop", "tool_calls"),
    "openai.responses": ("completed", "completed"),
    "anthropic.messages": ("end_turn", "tool_use"),
    "gemini": ("STOP", "STOP"),
    "ollama.chat": ("stop", "stop"),
    "bedrock.converse": ("end_turn", "tool_use"),
    "bedrock.invoke": ("end_turn", "tool_use"),
}
"""How each says that the answer, or the calls, are whole."""


def parts(response: Any, kind: str) -> list[Any]:
    return [part for part in response["content"] if part["type"] == kind]


def text_of(response: Any, kind: str = "text") -> str:
    return "".join(part["text"] for part in parts(response, kind))


@each(WAYS)
def test_text_and_counters(way: Way) -> None:
    answered = ask(way, Reply(TEXT, delivery=Delivery(chunk_tokens=1)))
    step, call = answered.step(), answered.call
    assert answered.response.status_code == 200
    assert (step.status, text_of(step.response)) == ("ok", TEXT)
    assert call.dialect == way.dialect
    assert call.messages == [{"role": "user", "content": "hi"}]
    assert call.stream is (way in STREAMED)
    assert call.sent == answered.response.content
    if way in PLAIN or not way.dialect.startswith(("openai.chat", "openai.comp")):  # whose streams count when asked to
        assert {len(call.prompt_ids), len(call.choices[0].response_ids)} <= numbers(step.usage)


@each(WITH_TOOLS)
def test_thoughts_text_and_calls(way: Way) -> None:
    step = ask(way, Reply(TEXT, CALLS, "Hm 🤔", delivery=Delivery(chunk_tokens=3))).step()
    assert (text_of(step.response), text_of(step.response, "reasoning")) == (TEXT, "Hm 🤔")
    made = parts(step.response, "tool_call")
    assert [(part["name"], json.loads(part["arguments"])) for part in made] == [
        (call.name, json.loads(call.arguments)) for call in CALLS
    ]
    assert [part["id"] for part in made] == [call.id for call in CALLS]


@each(WITH_TOOLS)
def test_the_vendors_words_for_an_end(way: Way) -> None:
    ends = [ask(way, reply).step().finish_reason for reply in (Reply("hi"), Reply("hi", CALLS))]
    assert tuple(ends) == STOPPED[way.dialect]


@each(WAYS)
def test_ends(way: Way) -> None:
    cut = ask(way, Reply("a b", finish_reason="length")).step()
    assert cut.status == "truncated"
    own = ask(way, Reply("a b", finish_reason="strange")).step()
    if way.dialect not in ("openai.responses", "openai.completions"):  # which have words of their own and no other
        assert own.finish_reason == "strange"


@each(WAYS)
@pytest.mark.parametrize("status", [400, 429, 500, 529])
def test_errors_have_the_vendors_shape(way: Way, status: int) -> None:
    answered = ask(way, Reply(TEXT, delivery=Delivery(status=status, headers={"retry-after": "7"})))
    assert (answered.response.status_code, answered.response.headers["retry-after"]) == (status, "7")
    assert answered.response.headers["content-type"] == "application/json"
    step = answered.step()
    assert step.status == "error"
    assert f"the script answered with status {status}" in json.dumps(step.extra)
    assert answered.call.choices == []


@each(WAYS)
def test_what_an_engine_refuses(way: Way) -> None:
    first = next(name for name in ("messages", "contents", "input", "prompt") if name in way.body)
    answered = ask(way, Reply(TEXT), **{first: 5})
    assert answered.response.status_code == 400
    assert answered.call.error


OBJECTS_ONLY = [way for way in WAYS if way.dialect in ("gemini", "ollama.chat")] + [
    way for way in PLAIN if way.dialect in ("anthropic.messages", "bedrock.converse", "bedrock.invoke")
]


@each(OBJECTS_ONLY)
def test_arguments_that_cannot_be_said_are_an_error_and_not_mended(way: Way) -> None:
    answered = ask(way, Reply(TEXT, [ToolCall("f", '{"cut": ')]))
    assert answered.response.status_code == 500
    assert "'f' are no JSON object" in str(answered.call.error)


@each([way for way in WITH_TOOLS if way not in OBJECTS_ONLY])
def test_where_arguments_are_text_they_may_be_anything(way: Way) -> None:
    (part,) = parts(ask(way, Reply(None, [ToolCall("f", '{"cut": ')])).step().response, "tool_call")
    assert part["arguments"] == '{"cut": '


texts = st.text(max_size=12)
replies = st.builds(
    Reply,
    content=st.none() | texts,
    tool_calls=st.lists(st.builds(ToolCall, st.text("ab", min_size=1, max_size=4), st.just('{"a": "é"}')), max_size=2),
    reasoning=st.none() | texts,
    delivery=st.builds(Delivery, chunk_tokens=st.integers(1, 5)),
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([way for way in WITH_TOOLS if way in STREAMED]), replies)
def test_any_reply_streams_as_itself(way: Way, reply: Reply) -> None:
    step = ask(way, reply).step()
    assert step.status == "ok"
    assert text_of(step.response) == (reply.content or "")
    assert text_of(step.response, "reasoning") == (reply.reasoning or "")
    assert [json.loads(part["arguments"]) for part in parts(step.response, "tool_call")] == [
        {"a": "é"} for _ in reply.tool_calls
    ]


@each(WAYS)
def test_a_script_is_told_the_dialect(way: Way) -> None:
    seen: list[ChatCall] = []

    def script(call: ChatCall) -> Reply:
        seen.append(call)
        return Reply("hi")

    ask(way, script)
    assert seen[0].dialect == way.dialect


def test_a_script_knows_the_model_of_a_path() -> None:
    call = ChatCall([], (), {"seed": 3}, b"{}", 0, 0, "gemini", "gemini-x")
    assert (call.dialect, call.model, call.seed) == ("gemini", "gemini-x", 3)


def test_names_and_paths_are_those_that_capture_knows() -> None:
    assert {dialect.name for dialect in new_dialects()} == set(dialects()) - {"engine.generate"}
    for way in WAYS:
        found = dialect_for("POST", way.path)
        assert found is not None
        assert found.name == way.dialect


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.text("abrole", max_size=4)
names = st.sampled_from(
    ["role", "content", "type", "text", "parts", "functionCall", "toolUse", "tool_calls", "call_id"]
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(WAYS), values, values)
def test_no_request_breaks_the_server(way: Way, said: Any, tools: Any) -> None:
    first = next(name for name in ("messages", "contents", "input", "prompt") if name in way.body)
    answered = ask(way, Reply("ok"), **{first: said, "tools": tools, "system": said})
    assert answered.response.status_code in (200, 400), answered.call.error
