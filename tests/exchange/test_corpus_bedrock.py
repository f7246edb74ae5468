"""Recorded traffic of Bedrock, against what the vendors' own SDKs make of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
from typing import Any

from stepwell.exchange import Exchange, dialect_for, parse
from stepwell.exchange._eventstream import read_frames
from stepwell.sdk.records import Step

from . import corpus
from .corpus import answered, cuts, each_of, expected, manifest, names, needed, packed, raw, subset, text

NAMES = names("bedrock_converse", "bedrock_invoke")

pytestmark = needed(NAMES)
each = each_of(NAMES)
each_asked = each_of(name for name in NAMES if manifest()[name]["request_recorded"])
each_stream = each_of(name for name in NAMES if manifest()[name]["stream"])

AT_HAND: dict[str, dict[str, Any]] = {
    "bedrock_invoke/dd-trace-py__bedrock_amazon_invoke_stream__00": {
        "status": "truncated", "finish_reason": "LENGTH", "begins": "\nDatadog is a monitoring", "length": 296,
        "usage": {"inputTextTokenCount": 18, "totalOutputTextTokenCount": 51},
    },
    "bedrock_invoke/dd-trace-py__bedrock_anthropic_invoke_stream__00": {
        "status": "ok", "finish_reason": "stop_sequence", "begins": "", "length": 0,
        "usage": {"inputTokenCount": 25, "outputTokenCount": 4},
    },
    "bedrock_invoke/dd-trace-py__bedrock_meta_invoke__00": {
        "status": "truncated", "finish_reason": "length", "begins": '\n\n"Lorem ipsum" is', "length": 261,
        "usage": {"prompt_token_count": 10, "generation_token_count": 60},
    },
    "bedrock_invoke/langchaingo__TestAmazonNova__00": {
        "status": "error", "finish_reason": None, "begins": "", "length": 0, "usage": None,
    },
    "bedrock_invoke/openllmetry__test_meta-test_meta_llama2_completion_string_content__00": {
        "status": "truncated", "finish_reason": "length", "begins": "  Oh my gosh", "length": 399,
        "usage": {"prompt_token_count": 158, "generation_token_count": 128},
    },
    "bedrock_invoke/opentelemetry-python-contrib__test_invoke_model_no_content-amazon.nova__00": {
        "status": "truncated", "finish_reason": "max_tokens", "begins": "It seems like you’re", "length": 38,
        "usage": {"inputTokens": 5, "outputTokens": 10, "totalTokens": 15},
    },
}  # fmt: skip
"""What no SDK puts together, read off the recordings."""


def load(name: str) -> Exchange:
    dialect = name.partition("/")[0].replace("_", ".")
    return corpus.load(name, dialect, "http://x/model/m/converse", b'{"messages": []}')


@each
def test_every_recording_is_known_by_its_path(name: str) -> None:
    exchange = load(name)
    dialect = dialect_for("POST", exchange.request.url.partition("//")[2].partition("?")[0])
    assert dialect is not None and dialect.name == exchange.dialect


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    recording, exchange = raw(name), load(name)
    wanted = expected()[name]
    (step,) = parse(exchange)
    assert step.response is not None
    parts = step.response["content"]
    if not wanted["ok"]:
        told, said = AT_HAND[name], text(step)
        assert (step.status, step.finish_reason) == (told["status"], told["finish_reason"])
        assert said.startswith(told["begins"]) and len(said) == told["length"]
        assert subset(told["usage"], step.usage)
        return
    if "result" not in wanted:
        assert (step.status, step.extra and step.extra["http_status"]) == ("error", recording["response"]["status"])
        return
    (choice,) = wanted["result"]["choices"]
    assert text(step) == choice["text"]
    assert text(step, "reasoning") == (choice["reasoning"] or "")
    assert calls(parts) == [(call["id"], call["name"], call["arguments"]) for call in choice["tool_calls"]]
    assert raw_arguments(parts) >= {call["arguments_raw"] for call in choice["tool_calls"] if call["arguments_raw"]}
    assert step.finish_reason == choice["finish_reason"]
    assert subset(wanted["result"]["usage"], step.usage)
    if wanted["result"]["response_id"]:
        assert step.response_id == wanted["result"]["response_id"]
    assert step.status == ("truncated" if choice["finish_reason"] == "max_tokens" else "ok")
    assert not step.trainable


def raw_arguments(parts: list[dict[str, Any]]) -> set[str]:
    return {part["arguments"] for part in parts if part["type"] == "tool_call"}


def calls(parts: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    found: list[tuple[str, str, Any]] = []
    for part in parts:
        if part["type"] == "tool_call":
            found.append((part["id"], part["name"], json.loads(part["arguments"])))
    return found


@each
def test_no_coding_changes_a_step(name: str) -> None:
    exchange = load(name)
    plain = parse(exchange)
    assert parse(exchange) == plain
    for other in packed(exchange, exchange.response.body):
        assert parse(other) == plain


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    body = exchange.response.body
    (whole,) = parse(exchange)
    for cut in cuts(body):
        (step,) = parse(answered(exchange, body[:cut], end="client_disconnect"))
        assert step.status in ("client_disconnect", "error") or step.finish_reason == whole.finish_reason
        assert text(whole).startswith(text(step))


@each_asked
def test_the_request_comes_back(name: str) -> None:
    recording, exchange = raw(name), load(name)
    (step,) = parse(exchange)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None
    assert same(dialect.request_of(step)) == same(json.loads(recording["request"]["body"]))


def same(value: Any) -> Any:
    """A body without null and empty lists, and with one text block for a content or a system prompt that is a text."""
    if isinstance(value, dict):
        kept = {key: same(inner) for key, inner in value.items() if inner is not None}
        for key in ("content", "system"):
            if isinstance(kept.get(key), str):
                kept[key] = [{"type": "text", "text": kept[key]}]
        return {key: inner for key, inner in kept.items() if inner != []}
    return [same(inner) for inner in value] if isinstance(value, list) else value


@each
def test_the_answer_comes_back(name: str) -> None:
    recording, exchange = raw(name), load(name)
    (step,) = parse(exchange)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None
    back = dialect.answer_of([step])
    if "body" in recording["response"]:
        assert same(back) == same(json.loads(recording["response"]["body"]))
        return
    # A stream: what it said makes the same step as a plain body.
    (again,) = parse(answered(exchange, json.dumps(back).encode(), status=200))
    assert comparable(again) == comparable(step)


def comparable(step: Step) -> dict[str, Any]:
    """Arguments by their value: a plain answer has an object where a stream has the model's own text."""
    fields = step.model_dump()
    for part in fields["response"]["content"]:
        if part["type"] == "tool_call":
            part["arguments"] = json.loads(part["arguments"])
    return fields


@each_stream
def test_every_recorded_frame_is_whole(name: str) -> None:
    found = read_frames(load(name).response.body)
    assert found.complete and found.frames
