"""Recorded Gemini traffic, against what the vendor's own SDK makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

from stepwell.exchange import Exchange, dialect_for, parse
from stepwell.exchange._gemini.dialect import Gemini
from stepwell.exchange._gemini.words import camel
from stepwell.sdk.records import Step

from . import corpus
from .corpus import answered, cuts, each_of, expected, manifest, names, needed, plain_body, recoded, subset, text

NAMES = names("gemini")

pytestmark = needed(NAMES)
each = each_of(NAMES)
each_stream = each_of(name for name in NAMES if manifest()[name]["stream"] and manifest()[name]["status"] == 200)

FREE = frozenset({"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"})
"""Fields whose own fields are the user's, and are not respelled."""


def load(name: str) -> Exchange:
    return corpus.load(name, "gemini", "http://x/v1/models/m:generateContent", b'{"contents": []}')


def objects(exchange: Exchange) -> list[dict[str, Any]]:
    """The answer's objects, read in the plainest way there is."""
    body = plain_body(exchange).decode()
    if body.lstrip().startswith("data:"):
        return [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:")]
    value = json.loads(body)
    return value if isinstance(value, list) else [value]


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    exchange = load(name)
    steps = parse(exchange)
    result = expected()[name].get("result")
    if result is None:
        by_hand(exchange, steps[0])
        return
    choices = result["choices"]
    assert len(steps) == max(1, len(choices))
    for step, choice in zip(steps, choices, strict=False):
        compare(step, choice, objects(exchange))
    first = steps[0]
    assert subset(result["usage"] or {}, snake(first.usage or {}))
    assert (first.response_id, first.model) == (result["response_id"], result["model"])
    if not choices:
        assert first.status == "error" and first.extra is not None
        assert first.extra["error"].get("blockReason") == result["prompt_block_reason"]


def compare(step: Step, choice: dict[str, Any], chunks: list[dict[str, Any]]) -> None:
    assert text(step) == choice["text"]
    assert text(step, "reasoning") == (choice["reasoning"] or "")
    assert step.finish_reason == choice["finish_reason"]
    assert step.status == ("truncated" if choice["finish_reason"] == "MAX_TOKENS" else "ok")
    if any(call.get("partial") for call in choice["tool_calls"]):
        # The SDK hands the pieces of such calls on as they come: here they are one call each, whole.
        assert calls(step) == joined_calls(chunks)
    else:
        assert calls(step) == [(call["name"], call["arguments"] or {}, call["id"]) for call in choice["tool_calls"]]
    assert step.response is not None
    others = [part for part in step.response["content"] if part["type"] not in ("text", "reasoning", "tool_call")]
    assert len(others) == len([tool for tool in choice["server_tools"] if tool != "grounding"])
    signatures = json.dumps(step.response).count('ignature": "')
    assert signatures == choice["signatures"]


def joined_calls(chunks: list[dict[str, Any]]) -> list[tuple[str, Any, None]]:
    """Calls in pieces, put together by their paths as text."""
    made: list[tuple[str, Any, None]] = []
    for call in (part["functionCall"] for chunk in chunks for part in parts(chunk) if "functionCall" in part):
        if "name" in call:
            made.append((call["name"], call.get("args", {}), None))
        for piece in call.get("partialArgs", []):
            holder: Any = made[-1][1]
            path = [int(step) if step.isdigit() else step for step in re.findall(r"[^$.\[\]]+", piece["jsonPath"])]
            for step, after in pairwise(path):
                if isinstance(holder, list) and step == len(holder):
                    holder.append({})
                holder = holder[step] if isinstance(holder, list) else holder.setdefault(step, [] if after == 0 else {})
            value = piece.get("stringValue", piece.get("numberValue"))
            holder[path[-1]] = (
                holder[path[-1]] + value if path[-1] in holder and value != "" else holder.get(path[-1], value)
            )
    return made


def parts(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for one in chunk.get("candidates", []) for part in one.get("content", {}).get("parts", [])]


def by_hand(exchange: Exchange, step: Step) -> None:
    """What the SDK cannot read, read in the plainest way."""
    chunks = objects(exchange)
    if "error" in chunks[0]:
        assert step.status == "error" and step.extra is not None and step.extra["error"] == chunks[0]["error"]
        return
    said = [part for chunk in chunks for part in parts(chunk)]
    assert text(step) == "".join(part["text"] for part in said if "text" in part and not part.get("thought"))
    assert text(step, "reasoning") == "".join(part["text"] for part in said if part.get("thought"))
    wanted = [part["functionCall"] for part in said if "functionCall" in part]
    assert calls(step) == [(call["name"], call.get("args", {}), call.get("id")) for call in wanted]
    ended = [one["finishReason"] for chunk in chunks for one in chunk.get("candidates", []) if "finishReason" in one][
        -1
    ]
    assert step.finish_reason == {1: "STOP", 2: "MAX_TOKENS"}.get(ended, ended)
    assert step.status == ("truncated" if step.finish_reason == "MAX_TOKENS" else "ok")
    assert subset(chunks[-1]["usageMetadata"], step.usage)
    assert (step.response_id, step.model) == (chunks[-1]["responseId"], chunks[-1]["modelVersion"])


def test_few_recordings_are_beyond_the_sdk() -> None:
    beyond = [name for name in NAMES if not expected()[name]["ok"]]
    assert len(beyond) < len(NAMES) / 5  # those with enums by number, and those that stream an array


def expected_by_its_source(name: str) -> dict[str, Any] | None:
    source = manifest()[name]
    return source.get("expected") or source.get("expected_twin")


@each_of(filter(expected_by_its_source, NAMES))
def test_the_recorders_own_tests_expect_the_same(name: str) -> None:
    wanted = expected_by_its_source(name)
    assert wanted is not None
    (step,) = parse(load(name))
    assert text(step) == wanted.get("text", "")
    assert text(step, "reasoning") == "".join(wanted.get("thinking") or [])
    named = [(call["name"], called(call["args"])) for call in wanted.get("tool_calls") or []]
    assert [(name, arguments) for name, arguments, _ in calls(step)] == named


def called(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def calls(step: Step) -> list[tuple[str, Any, str | None]]:
    assert step.response is not None
    found = [part for part in step.response["content"] if part["type"] == "tool_call"]
    return [(part["name"], json.loads(part["arguments"]), part["id"]) for part in found]


def snake(value: Any) -> Any:
    """The SDK's spelling."""
    if isinstance(value, dict):
        return {re.sub(r"[A-Z]", lambda m: f"_{m[0].lower()}", key): snake(inner) for key, inner in value.items()}
    return [snake(inner) for inner in value] if isinstance(value, list) else value


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    exchange = load(name)
    steps = parse(exchange)
    assert parse(exchange) == steps
    for other in recoded(exchange, plain_body(exchange)):
        assert parse(other) == steps


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    body = plain_body(exchange)
    steps = parse(exchange)
    for cut in cuts(body):
        for step in parse(answered(exchange, body[:cut], end="client_disconnect")):
            assert step.status != "ok" or step.finish_reason is not None
            whole = next((text(one) for one in steps if one.step_id == step.step_id), "")
            assert whole.startswith(text(step))


@each_stream
def test_an_array_is_what_the_events_are(name: str) -> None:
    """Both forms of a stream carry the same objects."""
    exchange = load(name)
    chunks = objects(exchange)
    events = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()
    array = json.dumps(chunks, ensure_ascii=False, indent=2).encode()
    made = [parse(answered(exchange, body)) for body in (events, array)]
    assert made[0] == made[1] == list(parse(exchange))


@each
def test_the_bodies_can_be_put_together_again(name: str) -> None:
    exchange = load(name)
    steps = parse(exchange)
    for step in steps:
        assert normal(Gemini().request_of(step), "user") == normal(json.loads(exchange.request.body), "user")
    answer = Gemini().answer_of(steps)
    if len(chunks := objects(exchange)) == 1:
        assert normal(answer, "model") == normal(chunks[0], "model")
    again = parse(answered(exchange, json.dumps(answer).encode()))
    assert again == list(steps)


def normal(value: Any, role: str, name: str = "") -> Any:
    """One form for what means the same in protocol buffers: names in camel case, no defaults written, one part as a list of one.

    `role` is that of a content without one.
    """
    if isinstance(value, list):
        return [normal(inner, role, name) for inner in value]
    if not isinstance(value, dict) or name in FREE:
        return value
    fields = {camel(key): normal(inner, role, camel(key)) for key, inner in value.items() if inner is not None}
    if name == "functionCall":
        fields.setdefault("args", {})
    if "parts" in fields and name in ("contents", "content"):
        fields.setdefault("role", role)
    if name in ("systemInstruction", "contents") and isinstance(fields.get("parts"), dict):
        fields["parts"] = [fields["parts"]]
    if name == "content" and not fields.get("parts"):
        return None
    if fields.get("index") == 0:
        del fields["index"]
    said = {key: inner for key, inner in fields.items() if inner is not None}
    return {key: inner for key, inner in said.items() if inner or key not in ("candidates", "generationConfig")}


@each
def test_every_recorded_request_is_a_generation(name: str) -> None:
    exchange = load(name)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None and dialect.name == "gemini"
    (asked, *_) = parse(exchange)
    assert asked.model_asked
    assert asked.model_asked in exchange.request.url
