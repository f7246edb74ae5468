"""Recorded Responses traffic, against what the vendor's own SDK makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from stepwell.exchange import Exchange, dialect_for, parse
from stepwell.exchange._responses.dialect import OpenAIResponses
from stepwell.exchange.canonical import following_key, prefix_keys
from stepwell.sdk.records import Step

from . import corpus
from .corpus import (
    answered,
    cuts,
    each_of,
    expected,
    is_stream,
    manifest,
    names,
    needed,
    plain_body,
    recoded,
    subset,
    text,
)

NAMES = names("openai_responses")
TERMINAL = (b'"response.completed"', b'"response.failed"', b'"type":"error"', b'"type": "error"')


def finished(name: str) -> bool:
    """Whether the SDK has the recording for an answer that ended as it should."""
    choices = (expected()[name].get("result") or {}).get("choices") or [{}]
    return bool(choices[0].get("finish_reason") == "completed")


def whole_stream(name: str) -> bool:
    """Whether it is a stream that ended so, and that no event was cut out of."""
    source = manifest()[name]
    trimmed = any("trimmed by its authors" in caution for caution in source.get("caution") or ())
    return bool(finished(name) and source["stream"] and not trimmed)


pytestmark = needed(NAMES)
each = each_of(NAMES)


def load(name: str) -> Exchange:
    return corpus.load(name, "openai.responses", "http://x/v1/responses", b'{"model": "m", "input": "?"}')


@each
def test_every_recording_is_of_this_dialect(name: str) -> None:
    path = load(name).request.url.split("//", 1)[1].partition("?")[0].partition("/")[2]
    found = dialect_for("POST", f"/{path}")
    assert found is not None
    assert found.name == "openai.responses"


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    (step,) = parse(load(name))
    wanted = expected()[name]
    if "result" not in wanted:
        assert step.status == "error"
        assert step.extra is not None
        assert subset(wanted["error"]["body"], step.extra["error"])
        return
    result = wanted["result"]
    compare(step, result["choices"][0])
    assert (step.response_id, step.model) == (result["response_id"], result["model"])
    assert subset(result["usage"] or {}, step.usage or {})


def compare(step: Step, choice: dict[str, Any]) -> None:
    assert step.response is not None
    parts = step.response["content"]
    assert [part["text"] for part in parts if part["type"] == "text" and part["text"]] == list(
        filter(None, choice["text_parts"])
    )
    assert text(step, "refusal") == (choice["refusal"] or "")
    assert "\n".join(p["text"] for p in parts if p["type"] == "reasoning" and p["text"]) == (choice["reasoning"] or "")
    assert sum("redacted" in part for part in parts) == choice["encrypted_reasoning_items"]
    calls = [(p["id"], p["name"], p["arguments"]) for p in parts if p["type"] == "tool_call"]
    assert calls == [(call["id"], call["name"], call["arguments_raw"]) for call in choice["tool_calls"]]
    others = [part["extra"]["type"] for part in parts if part["type"] in ("server_tool", "other")]
    assert others == choice["server_tools"]
    assert step.finish_reason == choice["finish_reason"]
    assert step.status == {"completed": "ok", "incomplete": "truncated"}.get(choice["finish_reason"], "error")


@each
def test_every_recording_gives_what_its_project_expects(name: str) -> None:
    source = manifest()[name]
    (step,) = parse(load(name))
    assert step.response is not None
    parts = step.response["content"]
    if twin := source.get("expected_twin"):
        assert text(step) == twin["text"]
        calls = [(part["name"], part["arguments"]) for part in parts if part["type"] == "tool_call"]
        named = [(call["name"], call["args"]) for call in twin["tool_calls"]]
        assert [call for call in calls if call in named] == named
        assert step.finish_reason == twin["status"]
        assert subset(twin["usage"], step.usage)
    if wanted := source.get("expected"):
        if wanted["text"] is not None:  # else the project's test does not say
            assert text(step) == wanted["text"]
        thoughts = [part["text"] for part in parts if part["type"] == "reasoning"]
        assert set(filter(None, wanted["thinking"])) <= set(thoughts)
        calls = [(part["name"], part["id"]) for part in parts if part["type"] == "tool_call"]
        assert [call[0] for call in calls] == [call["name"] for call in wanted["tool_calls"]]
        assert {call["id"] for call in wanted["tool_calls"] if call["id"]} <= {call[1] for call in calls}
        refusal = wanted.get("refusal")
        assert refusal is None or text(step, "refusal") == refusal
        assert step.finish_reason == wanted.get("provider_finish_reason", "completed")


@each
def test_no_line_end_no_coding_and_no_way_it_came_changes_a_step(name: str) -> None:
    exchange = load(name)
    (plain,) = parse(exchange)
    body = plain_body(exchange)
    assert parse(exchange) == [plain]
    sockets = [socket(exchange, body.replace(b"\r\n", b"\n"))] if is_stream(body) else []
    for other in [*recoded(exchange, body), *sockets]:
        assert parse(other) == [plain]


def socket(exchange: Exchange, events: bytes) -> Exchange:
    """The same turn over a WebSocket."""
    frames = [line.partition(b":")[2].strip() for line in events.splitlines() if line.startswith(b"data:")]
    body = b"\n".join(frame for frame in frames if frame != b"[DONE]")
    other = answered(exchange, body, status=101)
    other.response.headers[:] = [("content-type", "application/x-ndjson")]
    return replace(other, request=replace(other.request, method="WEBSOCKET"))


@each_of(filter(whole_stream, NAMES))
def test_the_pieces_alone_give_the_same_answer(name: str) -> None:
    """As on chatgpt.com, whose terminal event has an empty output."""
    exchange = load(name)
    body = plain_body(exchange)
    assert b'"response.completed"' in body
    (whole,) = parse(exchange)
    (step,) = parse(answered(exchange, with_empty_output(body)))
    assert said(step) == said(whole)
    assert step.status == whole.status


def with_empty_output(body: bytes) -> bytes:
    lines = []
    for line in body.splitlines():
        event = json.loads(line[5:]) if line.startswith(b"data:") and b'"response.completed"' in line else {}
        if event.get("type") == "response.completed":
            event["response"]["output"] = []
            line = b"data: " + json.dumps(event).encode()
        lines.append(line)
    return b"\n".join(lines) + b"\n"


def said(step: Step) -> list[Any]:
    assert step.response is not None
    keys = ("type", "text", "id", "name", "arguments")
    # What is encrypted is encrypted anew for the terminal event.
    return [
        [*(part.get(key) for key in keys), isinstance(part.get("redacted"), str)] for part in step.response["content"]
    ]


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    body = plain_body(exchange)
    for cut in cuts(body):
        for step in parse(answered(exchange, body[:cut], end="client_disconnect")):
            assert step.status != "ok" or any(event in body[:cut] for event in TERMINAL)


@each
def test_request_and_answer_can_be_rebuilt(name: str) -> None:
    exchange = load(name)
    steps = parse(exchange)
    dialect = OpenAIResponses()
    assert normal(dialect.request_of(steps[0])) == normal(json.loads(exchange.request.body))
    body = plain_body(exchange)
    if is_stream(body):
        events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith(b"data: {")]
        answer = next((event["response"] for event in events if event["type"] == "response.completed"), None)
    else:
        answer = json.loads(body)
    if answer is not None and exchange.response.status == 200:
        answer.pop("output_text", None)
        assert normal(dialect.answer_of(steps)) == normal(answer)


def normal(value: Any) -> Any:
    """Absent is null is an empty list; text is one text part; a message need not say that it is one."""
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    kept = {key: normal(inner) for key, inner in value.items() if inner not in (None, [])}
    if kept.get("content") == "":
        del kept["content"]
    if kept.get("type") == "message":
        del kept["type"]
    usual = "output_text" if kept.get("role") == "assistant" else "input_text"
    for field in ("content", "output", "input"):
        if isinstance(kept.get(field), str) and kept.get("type") not in ("custom_tool_call", "mcp_call"):
            kept[field] = [{"type": usual, "text": kept[field]}]
    return kept


@each_of(filter(finished, NAMES))
def test_an_answer_sent_back_is_known_again(name: str) -> None:
    exchange = load(name)
    (step,) = parse(exchange)
    assert step.status == "ok" and step.response is not None and step.response["content"]
    dialect = OpenAIResponses()
    asked, answer = dialect.request_of(step), dialect.answer_of([step])
    history = asked["input"] if isinstance(asked["input"], list) else [{"role": "user", "content": asked["input"]}]
    following = {**asked, "input": [*history, *answer["output"], {"role": "user", "content": "and then?"}]}
    (later,) = parse(replace(exchange, request=replace(exchange.request, body=json.dumps(following).encode())))
    assert later.messages is not None
    assert step.messages is not None
    keys = prefix_keys(step.messages)
    assert prefix_keys(later.messages)[len(keys)] == following_key(keys, step.response)
