"""Recorded traffic of Bedrock, against what the vendors' own SDKs make of it (skipped where the recordings are absent)."""

from __future__ import annotations

import base64
import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from stepwell.exchange import Exchange, Request, Response, dialect_for, parse
from stepwell.exchange._eventstream import read_frames
from stepwell.sdk.records import Step

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
NAMES = sorted(
    f"{folder}/{path.stem}"
    for folder in ("bedrock_converse", "bedrock_invoke")
    for path in (CORPUS / "exchanges" / folder).glob("*.json")
)

pytestmark = pytest.mark.skipif(not NAMES, reason="needs the recorded exchanges in ../shared/corpus")
each = pytest.mark.parametrize("name", NAMES)

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


@lru_cache
def expected() -> dict[str, dict[str, Any]]:
    lines = (CORPUS / "EXPECTED.jsonl").read_text(encoding="utf8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def load(name: str) -> tuple[dict[str, Any], Exchange]:
    raw = json.loads((CORPUS / "exchanges" / f"{name}.json").read_text(encoding="utf8"))
    asked, answered = raw["request"], raw["response"]
    body = base64.b64decode(answered["body_b64"]) if "body_b64" in answered else answered["body"].encode()
    # Without a recorded request: any that is one.
    request = asked["body"].encode() if asked else b'{"messages": []}'
    headers = [(key.lower(), value) for key, value in answered["headers"]]
    return raw, Exchange(
        id=name,
        dialect=raw["dialect"].replace("_", "."),
        request=Request("POST", asked["url"] if asked else "http://x/model/m/converse", [], request, 1),
        response=Response(answered["status"] or 200, headers, body, "complete", 2),
    )


def answered_with(exchange: Exchange, response: Response) -> list[Step]:
    return list(parse(Exchange(exchange.id, exchange.dialect, exchange.request, response)))


@each
def test_every_recording_is_known_by_its_path(name: str) -> None:
    _, exchange = load(name)
    dialect = dialect_for("POST", exchange.request.url.partition("//")[2].partition("?")[0])
    assert dialect is not None and dialect.name == exchange.dialect


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    raw, exchange = load(name)
    wanted = expected()[name]
    (step,) = parse(exchange)
    assert step.response is not None
    parts = step.response["content"]
    if not wanted["ok"]:
        told, text = AT_HAND[name], joined(parts, "text")
        assert (step.status, step.finish_reason) == (told["status"], told["finish_reason"])
        assert text.startswith(told["begins"]) and len(text) == told["length"]
        assert subset(told["usage"], step.usage)
        return
    if "result" not in wanted:
        assert (step.status, step.extra and step.extra["http_status"]) == ("error", raw["response"]["status"])
        return
    (choice,) = wanted["result"]["choices"]
    assert joined(parts, "text") == choice["text"]
    assert joined(parts, "reasoning") == (choice["reasoning"] or "")
    assert calls(parts) == [(call["id"], call["name"], call["arguments"]) for call in choice["tool_calls"]]
    assert raw_arguments(parts) >= {call["arguments_raw"] for call in choice["tool_calls"] if call["arguments_raw"]}
    assert step.finish_reason == choice["finish_reason"]
    assert subset(wanted["result"]["usage"], step.usage)
    if wanted["result"]["response_id"]:
        assert step.response_id == wanted["result"]["response_id"]
    assert step.status == ("truncated" if choice["finish_reason"] == "max_tokens" else "ok")
    assert not step.trainable


def joined(parts: list[dict[str, Any]], kind: str) -> str:
    return "".join(part["text"] for part in parts if part["type"] == kind)


def raw_arguments(parts: list[dict[str, Any]]) -> set[str]:
    return {part["arguments"] for part in parts if part["type"] == "tool_call"}


def calls(parts: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    found: list[tuple[str, str, Any]] = []
    for part in parts:
        if part["type"] == "tool_call":
            found.append((part["id"], part["name"], json.loads(part["arguments"])))
    return found


def subset(wanted: Any, found: Any) -> bool:
    """The SDK drops nulls and what it does not know."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(subset(value, found.get(key)) for key, value in wanted.items())
    return bool(wanted == found)


@each
def test_no_coding_changes_a_step(name: str) -> None:
    _, exchange = load(name)
    plain = parse(exchange)
    assert parse(exchange) == plain
    body = exchange.response.body
    packed = {"gzip": gzip.compress(body), "br": brotli.compress(body), "zstd": zstandard.compress(body)}
    for coding, coded in packed.items():
        headers = [*exchange.response.headers, ("content-encoding", coding)]
        assert answered_with(exchange, Response(exchange.response.status, headers, coded, "complete", 2)) == plain


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    _, exchange = load(name)
    body, headers = exchange.response.body, exchange.response.headers
    (whole,) = parse(exchange)
    for cut in range(0, len(body), max(1, len(body) // 40)):
        part = Response(exchange.response.status, headers, body[:cut], "client_disconnect", 2)
        (step,) = answered_with(exchange, part)
        assert step.status in ("client_disconnect", "error") or step.finish_reason == whole.finish_reason
        assert step.response is not None and whole.response is not None
        assert joined(whole.response["content"], "text").startswith(joined(step.response["content"], "text"))


@each
def test_the_request_comes_back(name: str) -> None:
    raw, exchange = load(name)
    if raw["request"] is None:
        pytest.skip("the request was not recorded")
    (step,) = parse(exchange)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None
    assert same(dialect.request_of(step)) == same(json.loads(raw["request"]["body"]))


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
    raw, exchange = load(name)
    (step,) = parse(exchange)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None
    back = dialect.answer_of([step])
    if "body" in raw["response"]:
        assert same(back) == same(json.loads(raw["response"]["body"]))
        return
    # A stream: what it said makes the same step as a plain body.
    (again,) = answered_with(
        exchange, Response(200, exchange.response.headers, json.dumps(back).encode(), "complete", 2)
    )
    assert comparable(again) == comparable(step)


def comparable(step: Step) -> dict[str, Any]:
    """Arguments by their value: a plain answer has an object where a stream has the model's own text."""
    fields = step.model_dump()
    for part in fields["response"]["content"]:
        if part["type"] == "tool_call":
            part["arguments"] = json.loads(part["arguments"])
    return fields


@each
def test_every_recorded_frame_is_whole(name: str) -> None:
    raw, exchange = load(name)
    if "body_b64" not in raw["response"]:
        pytest.skip("no frames")
    found = read_frames(exchange.response.body)
    assert found.complete and found.frames
