"""Recorded Messages traffic, against what the vendor's own SDK makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
from typing import Any

from stepwell.exchange import Exchange, dialect_for, parse
from stepwell.exchange._anthropic.dialect import AnthropicMessages
from stepwell.exchange._sse import parse_events
from stepwell.sdk.records import Step

from . import corpus
from .corpus import answered, cuts, each_of, expected, manifest, names, needed, plain_body, recoded, subset, text

NAMES = names("anthropic", "anthropic_vertex")

pytestmark = needed(NAMES)
each = each_of(NAMES)
DIALECT = AnthropicMessages()

SPLICED = "anthropic/ai__spliced-message-start.chunks__00"
"""Two generations in one body. The SDK adds the second one's deltas to the first one's blocks; we keep them apart."""


def load(name: str) -> Exchange:
    """A recording, its answer decoded."""
    exchange = corpus.load(name, "anthropic.messages", "http://x/v1/messages", b'{"model": "m", "messages": []}')
    return answered(exchange, plain_body(exchange))


def step_of(name: str) -> Step:
    (step,) = parse(load(name))
    return step


@each
def test_every_recording_is_found_by_its_path(name: str) -> None:
    request = load(name).request
    found = dialect_for(request.method, "/" + request.url.split("/", 3)[3])
    assert found is not None and found.name == "anthropic.messages"


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    step, wanted = step_of(name), expected()[name]
    if "result" not in wanted:
        assert step.status == "error"
        return
    result = wanted["result"]
    (choice,) = result["choices"]
    assert step.response is not None
    parts = step.response["content"]
    assert texts(parts, "text") == choice["text_parts"]
    assert subset(result["usage"], step.usage)
    assert (step.response_id, step.model, step.finish_reason) == (
        result["response_id"],
        result["model"],
        choice["finish_reason"],
    )
    assert [block["type"] for block in DIALECT.answer_of([step])["content"]] == result["item_types"]
    calls = [part for part in parts if part["type"] == "tool_call"]
    assert [(call["id"], call["name"]) for call in calls] == [(c["id"], c["name"]) for c in choice["tool_calls"]]
    thoughts = [part["text"] for part in parts if part["type"] == "reasoning" and "redacted" not in part]
    if name == SPLICED:
        assert thoughts == ["I will call the tool.", "Let me call the tool."]
        assert [call["arguments"] for call in calls] == ['{"value":"Spark', '{"value":"Sparkle Day"}']
        return
    assert ("\n".join(thoughts) or None) == choice["reasoning"]
    assert [json.loads(call["arguments"]) for call in calls] == [call["arguments"] for call in choice["tool_calls"]]
    assert (step.extra or {}).get("choice", {}).get("stop_sequence") == choice["stop_sequence"]
    cut = choice["finish_reason"] == "max_tokens"
    assert (step.status, step.trainable) == ("truncated" if cut else "ok", False)


def texts(parts: list[dict[str, Any]], kind: str) -> list[str]:
    return [part["text"] for part in parts if part["type"] == kind]


@each
def test_every_recording_gives_what_its_source_expects(name: str) -> None:
    source, step = manifest()[name], step_of(name)
    assert step.response is not None
    parts = step.response["content"]
    for wanted in filter(None, (source.get("expected"), source.get("expected_twin"))):
        assert step.usage is not None
        if said := wanted["text"]:
            assert text(step) == said
        if any(thoughts := wanted["thinking"]):  # most sources do not look at it
            assert texts(parts, "reasoning") == thoughts
        calls = [part for part in parts if part["type"] == "tool_call"]
        assert [call["name"] for call in calls] == [call["name"] for call in wanted["tool_calls"]]
        for call, named in zip(calls, wanted["tool_calls"], strict=True):
            if named.get("args_known", True):
                assert json.loads(call["arguments"]) == argument(named["args"])
        if output := (wanted.get("usage") or {}).get("output_tokens"):
            assert step.usage["output_tokens"] == output


def argument(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


@each
def test_the_bodies_can_be_rebuilt(name: str) -> None:
    exchange = load(name)
    (step,) = parse(exchange)
    body = json.loads(exchange.request.body)
    assert plain(DIALECT.request_of(step)) == plain(body)
    if exchange.response.body.lstrip().startswith(b"{"):
        assert plain(DIALECT.answer_of([step])) == plain(json.loads(exchange.response.body))


@each
def test_a_rebuilt_answer_makes_the_same_step(name: str) -> None:
    """For a stream: what its pieces would have made as a plain body."""
    exchange = load(name)
    (step,) = parse(exchange)
    body = json.dumps(DIALECT.answer_of([step])).encode()
    (again,) = parse(answered(exchange, body, headers=[("content-type", "application/json")]))
    assert semantic(again) == semantic(step)


def plain(value: Any) -> Any:
    """Null is absent; a text is one text block; no content, no tools and no system prompt are absent."""
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    made = {key: plain(inner) for key, inner in value.items() if inner is not None}
    for key in ("content", "system"):
        if isinstance(made.get(key), str) and ("role" in made or made.get("type") == "tool_result" or key == "system"):
            made[key] = [{"type": "text", "text": made[key]}] if made[key] else []
    return {key: inner for key, inner in made.items() if key not in ("content", "tools", "system") or inner != []}


def semantic(step: Step) -> dict[str, Any]:
    made = step.model_dump()
    for part in made["response"]["content"]:
        if part["type"] == "tool_call" and part["arguments"].endswith("}"):
            part["arguments"] = json.loads(part["arguments"])
    return made


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    exchange = load(name)
    steps = parse(exchange)
    for other in recoded(exchange, exchange.response.body):
        assert parse(other) == steps


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    body = exchange.response.body
    whole = json.dumps(parse(exchange)[0].response)
    ends = end_of(body)
    for cut in places(body):
        (step,) = parse(answered(exchange, body[:cut], end="client_disconnect"))
        ended = cut >= ends
        assert step.response is not None and ended == (step.status != "client_disconnect")
        for said in step.response["content"]:
            if said["type"] in ("text", "reasoning"):
                assert json.dumps(said["text"])[1:-1] in whole
            if said["type"] == "tool_call":
                assert json.dumps(said["arguments"])[1:-1] in whole


def end_of(body: bytes) -> int:
    """Where the answer has said that it ended: the event with the reason, the last byte of a plain body."""
    for event in parse_events(body):
        if b"message_delta" in event.data and json.loads(event.data)["delta"]["stop_reason"]:
            return body.rindex(event.data) + len(event.data.rstrip())
    return len(body.rstrip())


def places(body: bytes) -> list[int]:
    """Thirty places all over the body, and where each of its last events begins and ends."""
    found = set(cuts(body, 30))
    events = list(parse_events(body))[-3:]
    for event in events:
        at = body.rindex(event.data)
        found |= {at, at + len(event.data) // 2, at + len(event.data) - 1}
    return sorted(found)
