"""Recorded traffic of real servers, against what the vendor's own SDK makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import Exchange, Unparseable, dialect_for, parse
from stepwell.sdk.records import Step

from . import corpus
from .corpus import answered, cuts, each_of, expected, manifest, names, needed, plain_body, raw, recoded, subset, text

NAMES = names("openai_chat")
UNPARSEABLE = {"openai_chat/pydantic-ai__test_openai-test_text_response__00": "the response is no JSON"}
"""What is no chat exchange, and the reason: an echo service answered with its own plain text."""

pytestmark = needed(NAMES)
each = each_of(NAMES)
each_exchange = each_of(name for name in NAMES if name not in UNPARSEABLE)

NAME_SAID_TWICE = "openai_chat/llm__test_tools_streaming-test_tools_streaming_variant_a__00"
"""The server repeats id and name; the SDK strings the two together, which names nothing."""


def load(name: str) -> Exchange:
    return corpus.load(name, "openai.chat", "http://x/v1/chat/completions", b'{"model": "m", "messages": []}')


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    exchange = load(name)
    wanted = expected()[name]
    if name in UNPARSEABLE:
        with pytest.raises(Unparseable, match=UNPARSEABLE[name]):
            parse(exchange)
        return
    steps = parse(exchange)
    if "result" not in wanted:
        assert [step.status for step in steps] == ["error"]
        return
    choices = wanted["result"]["choices"]
    assert len(steps) == max(1, len(choices))
    for step, choice in zip(steps, choices, strict=False):
        compare(step, choice, name)
    # Some of what the SDK loses, we have: usage beside an empty choice, an id that Azure's first chunk leaves empty.
    assert subset(wanted["result"].get("usage") or {}, steps[0].usage or {})
    if wanted["result"]["response_id"]:
        assert steps[0].response_id == wanted["result"]["response_id"]


def compare(step: Step, choice: dict[str, Any], name: str) -> None:
    assert step.response is not None
    assert text(step) == flat(choice["text"])
    assert text(step, "refusal") == (choice["refusal"] or "")
    if choice["reasoning"]:
        assert text(step, "reasoning") == choice["reasoning"]
    calls = [part for part in step.response["content"] if part["type"] == "tool_call"]
    wanted = choice["tool_calls"] + [
        {"name": call["name"], "arguments_raw": call["arguments_raw"]} for call in [choice.get("function_call")] if call
    ]
    assert [(call["name"], argument(call["arguments"])) for call in calls] == [
        (once(call["name"], name), argument(call["arguments_raw"])) for call in wanted
    ]
    assert [call["id"] for call in calls if call["id"]] == [once(call["id"], name) for call in wanted if call.get("id")]
    assert step.finish_reason == (choice["finish_reason"] or None)


def second_opinions() -> dict[str, dict[str, Any]]:
    """By recording, what the tests of the client library that made it say of it."""
    said = {name: manifest()[name].get("expected") for name in NAMES}
    return {name: expected for name, expected in said.items() if expected}


@pytest.mark.parametrize(("name", "wanted"), second_opinions().items())
def test_the_clients_own_tests_agree(name: str, wanted: dict[str, Any]) -> None:
    exchange = load(name)
    step = parse(exchange)[0]
    assert step.response is not None
    if wanted.get("text") is not None:
        assert text(step) == wanted["text"]
    assert text(step, "refusal") == wanted.get("refusal", "")
    if thoughts := [thought for thought in wanted["thinking"] if thought]:
        assert text(step, "reasoning") == "".join(thoughts)
    calls = [part for part in step.response["content"] if part["type"] == "tool_call"]
    assert [(call["name"], argument(call["arguments"]), call["id"]) for call in calls] == [
        (call["name"], argument(call["args"]), call["id"]) for call in wanted["tool_calls"]
    ]
    if reason := wanted.get("provider_finish_reason"):
        assert step.finish_reason == reason


def once(function: str, name: str) -> str:
    return function[: len(function) // 2] if name == NAME_SAID_TWICE else function


def flat(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content or ""


def argument(value: Any) -> Any:
    if not isinstance(value, str):
        return value or ""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value or ""


@each_exchange
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    exchange = load(name)
    plain = parse(exchange)
    assert parse(exchange) == plain
    for other in recoded(exchange, plain_body(exchange)):
        assert parse(other) == plain


@each_exchange
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    body = exchange.response.body
    for cut in cuts(body, 25):
        for step in parse(answered(exchange, body[:cut], headers=exchange.response.headers, end="client_disconnect")):
            assert step.status != "ok" or step.finish_reason is not None or b"[DONE]" in body[:cut]


@each_exchange
def test_the_request_and_the_answer_come_back(name: str) -> None:
    exchange = load(name)
    steps, dialect = parse(exchange), dialect_for("POST", "/chat/completions")
    assert dialect is not None
    if raw(name)["request"]:
        asked = json.loads(exchange.request.body)
        assert same(dialect.request_of(steps[0])) == same(asked)
    back = json.loads(json.dumps(dialect.answer_of(steps)))
    body = plain_body(exchange)
    if body.startswith(b"{"):
        assert same(back) == same(json.loads(body))
    elif steps[0].status != "error":  # a stream: as the plain answer that it adds up to, it is the same steps
        again = parse(answered(exchange, json.dumps(back).encode(), status=200))
        assert [meaning(step) for step in again] == [meaning(step) for step in steps]


def meaning(step: Step) -> dict[str, Any]:
    return step.model_dump(exclude={"extra": {"response": {"object"}}, "first_token_at": True, "finished_at": True})


def same(value: Any, key: str = "") -> Any:
    """A body without what means nothing: null or empty fields, one text as a list, arguments by their value, a text cut in pieces."""
    if key == "arguments":
        return argument(value)
    if isinstance(value, list):
        return [same(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {name: same(inner, name) for name, inner in value.items()}
    kept = {name: inner for name, inner in kept.items() if inner or (inner is not None and name not in MAY_BE_EMPTY)}
    if kept == {"role": "assistant"}:
        return {}  # a filtered choice comes without a message
    if isinstance(parts := kept.get("content"), list) and [part.keys() for part in parts] == [{"type", "text"}]:
        kept["content"] = parts[0]["text"]
    if isinstance(thoughts := kept.get("thinking"), list):
        kept["thinking"] = "".join(thought["text"] for thought in thoughts)
    return kept


MAY_BE_EMPTY = {"id", "message", "role", "finish_reason", "reasoning", "reasoning_content", "refusal", "content",
                "tool_calls", "function_call", "thinking"}  # fmt: skip
