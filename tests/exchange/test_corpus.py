"""Recorded traffic of real servers, against what the vendor's own SDK makes of it (skipped where the recordings are absent)."""

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

from stepwell.exchange import Exchange, Request, Response, Unparseable, dialect_for, parse
from stepwell.sdk.records import Step

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FOLDER = CORPUS / "exchanges" / "openai_chat"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

pytestmark = pytest.mark.skipif(not NAMES, reason="needs the recorded exchanges in ../shared/corpus")
each = pytest.mark.parametrize("name", NAMES)

UNPARSEABLE = {"pydantic-ai__test_openai-test_text_response__00": "the response is no JSON"}
"""What is no chat exchange, and the reason: an echo service answered with its own plain text."""

NAME_SAID_TWICE = "llm__test_tools_streaming-test_tools_streaming_variant_a__00"
"""The server repeats id and name; the SDK strings the two together, which names nothing."""


@lru_cache
def expected() -> dict[str, dict[str, Any]]:
    lines = (CORPUS / "EXPECTED.jsonl").read_text(encoding="utf8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def load(name: str) -> tuple[dict[str, Any], Exchange]:
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf8"))
    asked, answered = raw["request"], raw["response"]
    body = base64.b64decode(answered["body_b64"]) if "body_b64" in answered else answered["body"].encode()
    # Without a recorded request: any that is one.
    request = asked["body"].encode() if asked else b'{"model": "m", "messages": []}'
    return raw, Exchange(
        id=name,
        dialect="openai.chat",
        request=Request("POST", asked["url"] if asked else "http://x/v1/chat/completions", [], request, 1),
        response=Response(answered["status"] or 200, lowered(answered["headers"]), body, "complete", 2),
    )


def lowered(headers: list[list[str]]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers]


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    _, exchange = load(name)
    wanted = expected()[f"openai_chat/{name}"]
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
    parts = step.response["content"]
    assert text(parts, "text") == flat(choice["text"])
    assert text(parts, "refusal") == (choice["refusal"] or "")
    if choice["reasoning"]:
        assert text(parts, "reasoning") == choice["reasoning"]
    calls = [part for part in parts if part["type"] == "tool_call"]
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
    if not NAMES:
        return {}
    lines = map(json.loads, (CORPUS / "MANIFEST.jsonl").read_text(encoding="utf8").splitlines())
    names = ((line["id"].removeprefix("openai_chat/"), line.get("expected")) for line in lines)
    return {name: expected for name, expected in names if expected and name in NAMES}


@pytest.mark.parametrize(("name", "wanted"), second_opinions().items())
def test_the_clients_own_tests_agree(name: str, wanted: dict[str, Any]) -> None:
    _, exchange = load(name)
    step = parse(exchange)[0]
    assert step.response is not None
    parts = step.response["content"]
    if wanted.get("text") is not None:
        assert text(parts, "text") == wanted["text"]
    assert text(parts, "refusal") == wanted.get("refusal", "")
    if thoughts := [thought for thought in wanted["thinking"] if thought]:
        assert text(parts, "reasoning") == "".join(thoughts)
    calls = [part for part in parts if part["type"] == "tool_call"]
    assert [(call["name"], argument(call["arguments"]), call["id"]) for call in calls] == [
        (call["name"], argument(call["args"]), call["id"]) for call in wanted["tool_calls"]
    ]
    if reason := wanted.get("provider_finish_reason"):
        assert step.finish_reason == reason


def once(function: str, name: str) -> str:
    return function[: len(function) // 2] if name == NAME_SAID_TWICE else function


def text(parts: list[dict[str, Any]], kind: str) -> str:
    return "".join(part["text"] for part in parts if part["type"] == kind)


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


def subset(wanted: Any, found: Any) -> bool:
    """The SDK drops nulls, and fields that it does not know keep their values."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(subset(value, found.get(key)) for key, value in wanted.items())
    return bool(wanted == found)


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    _, exchange = load(name)
    if name in UNPARSEABLE or exchange.response.body.startswith(b"\x1f\x8b"):
        pytest.skip("nothing to compare with")
    plain = parse(exchange)
    assert parse(exchange) == plain
    for coding, body in variants(exchange.response.body):
        headers = [*exchange.response.headers, *([("content-encoding", coding)] if coding else [])]
        other = Response(exchange.response.status, headers, body, "complete", 2)
        again = parse(Exchange(exchange.id, exchange.dialect, exchange.request, other))
        assert [comparable(step) for step in again] == [comparable(step) for step in plain]


def variants(body: bytes) -> list[tuple[str, bytes]]:
    """The body in other codings, a stream with other line ends as well."""
    packed = [
        ("gzip", gzip.compress(body)),
        ("br", brotli.compress(body, quality=1)),
        ("zstd", zstandard.compress(body)),
    ]
    if not body.startswith(b"data:"):
        return packed
    lines = body.replace(b"\r\n", b"\n")
    others = [lines.replace(b"\n", b"\r\n"), lines.replace(b"\n", b"\r"), lines.replace(b"data: ", b"data:")]
    return [*packed, *(("", other) for other in others)]


def comparable(step: Step) -> dict[str, Any]:
    return step.model_dump()


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    _, exchange = load(name)
    if name in UNPARSEABLE:
        pytest.skip("no exchange")
    body = exchange.response.body
    ends = range(0, len(body), max(1, len(body) // 25))
    for cut in ends:
        part = Response(exchange.response.status, exchange.response.headers, body[:cut], "client_disconnect", 2)
        for step in parse(Exchange(exchange.id, exchange.dialect, exchange.request, part)):
            assert step.status != "ok" or step.finish_reason is not None or b"[DONE]" in body[:cut]


@each
def test_the_request_and_the_answer_come_back(name: str) -> None:
    raw, exchange = load(name)
    if name in UNPARSEABLE:
        pytest.skip("no exchange")
    steps, dialect = parse(exchange), dialect_for("POST", "/chat/completions")
    assert dialect is not None
    if raw["request"]:
        asked = json.loads(exchange.request.body)
        assert same(dialect.request_of(steps[0])) == same(asked)
    answered = json.loads(json.dumps(dialect.answer_of(steps)))
    body = gzip.decompress(exchange.response.body) if exchange.response.body[:1] == b"\x1f" else exchange.response.body
    if body.startswith(b"{"):
        assert same(answered) == same(json.loads(body))
    elif steps[0].status != "error":  # a stream: as the plain answer that it adds up to, it is the same steps
        plain = Response(200, [], json.dumps(answered).encode(), "complete", 2)
        again = parse(Exchange(exchange.id, exchange.dialect, exchange.request, plain))
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
