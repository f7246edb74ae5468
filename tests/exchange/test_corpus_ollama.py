"""Recorded traffic of Ollama servers, against what Ollama's own client makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import brotli
import pytest
import zstandard

from stepwell.exchange import Exchange, Request, Response, dialect_for, parse
from stepwell.sdk.records import Step

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FOLDER = CORPUS / "exchanges" / "ollama"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
COUNTERS = {"prompt_eval_count", "eval_count", "total_duration"}

pytestmark = pytest.mark.skipif(not NAMES, reason="needs the recorded exchanges in ../shared/corpus")
each = pytest.mark.parametrize("name", NAMES)


@lru_cache
def expected() -> dict[str, dict[str, Any]]:
    lines = (CORPUS / "EXPECTED.jsonl").read_text(encoding="utf8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def load(name: str) -> tuple[dict[str, Any], Exchange]:
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf8"))
    asked, answered = raw["request"], raw["response"]
    generates = b'"response":' in answered["body"].encode()[:300]
    url = asked["url"] if asked else f"http://x/api/{'generate' if generates else 'chat'}"
    dialect = dialect_for("POST", url)
    assert dialect is not None
    headers = [(key.lower(), value) for key, value in answered["headers"]]
    return raw, Exchange(
        id=name,
        dialect=dialect.name,
        request=Request("POST", url, [], asked["body"].encode() if asked else b'{"model": "m"}', 1),
        response=Response(answered["status"] or 200, headers, answered["body"].encode(), "complete", 2),
        request_known=asked is not None,
    )


def with_answer(exchange: Exchange, body: bytes, **options: Any) -> Exchange:
    headers = [*exchange.response.headers, *options.pop("headers", [])]
    response = Response(exchange.response.status, headers, body, options.pop("end", "complete"), 2)
    return Exchange(exchange.id, exchange.dialect, exchange.request, response, request_known=exchange.request_known)


@each
def test_every_recording_gives_what_the_client_gives(name: str) -> None:
    _, exchange = load(name)
    wanted = expected()[f"ollama/{name}"]
    (step,) = parse(exchange)
    if "result" not in wanted:
        assert (
            step.status == "error" and step.extra is not None and step.extra["http_status"] == wanted["error"]["status"]
        )
        return
    result = wanted["result"]
    (choice,) = result["choices"]
    assert (joined(step, "text"), joined(step, "reasoning")) == (choice["text"], choice["reasoning"])
    assert step.response is not None
    calls = [part for part in step.response["content"] if part["type"] == "tool_call"]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        (call["name"], call["arguments"]) for call in choice["tool_calls"]
    ]
    assert step.finish_reason == choice["finish_reason"]
    assert step.status == ("truncated" if choice["finish_reason"] == "length" else "ok")
    usage = step.usage or {}
    assert {key: usage.get(key) for key in COUNTERS} == {key: result["usage"].get(key) for key in COUNTERS}
    assert step.model == result["model"]
    if "context_len" in result:
        assert step.extra is not None and len(step.extra["response"]["context"]) == result["context_len"]
    assert step.response_ids is None and not step.trainable


def joined(step: Step, kind: str) -> str:
    assert step.response is not None
    return "".join(part["text"] for part in step.response["content"] if part["type"] == kind)


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    _, exchange = load(name)
    plain, body = parse(exchange), exchange.response.body
    assert parse(exchange) == plain
    packed = {"gzip": gzip.compress(body), "br": brotli.compress(body), "zstd": zstandard.compress(body)}
    for coding, packed_body in packed.items():
        assert parse(with_answer(exchange, packed_body, headers=[("content-encoding", coding)])) == plain
    lines = body.replace(b"\r\n", b"\n")
    for end in (b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"):
        assert parse(with_answer(exchange, lines.replace(b"\n", end))) == plain


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    _, exchange = load(name)
    whole = joined(parse(exchange)[0], "text")
    body = exchange.response.body
    ends = {*range(0, len(body), max(1, len(body) // 40)), *(place for place, byte in enumerate(body) if byte == 10)}
    for cut in sorted(end for end in ends if end < len(body.rstrip()))[-200:]:
        (step,) = parse(with_answer(exchange, body[:cut], end="client_disconnect"))
        assert step.status in ("client_disconnect", "error")
        assert step.finish_reason is None and whole.startswith(joined(step, "text"))


@each
def test_the_request_and_the_answer_come_back(name: str) -> None:
    raw, exchange = load(name)
    (step,) = parse(exchange)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None
    if raw["request"]:
        assert said(dialect.request_of(step)) == said(json.loads(exchange.request.body))
    answered = dialect.answer_of([step])
    if exchange.response.body.count(b"\n") <= 1 and b"\n{" not in exchange.response.body:
        assert said(answered) == said(json.loads(exchange.response.body))
    else:  # lines: as the one object that they add up to, they are the same step
        (again,) = parse(with_answer(exchange, json.dumps(answered).encode()))
        assert again == step


def said(value: Any) -> Any:
    """A body without its empty fields."""
    if isinstance(value, list):
        return [said(inner) for inner in value]
    if isinstance(value, dict):
        return {key: said(inner) for key, inner in value.items() if inner not in (None, "", [])}
    return value
