"""Recorded traffic of Ollama servers, against what Ollama's own client makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
from typing import Any

from stepwell.exchange import Exchange, dialect_for, parse

from . import corpus
from .corpus import answered, cuts, each_of, expected, names, needed, packed, raw, text

NAMES = names("ollama")
COUNTERS = {"prompt_eval_count", "eval_count", "total_duration"}

pytestmark = needed(NAMES)
each = each_of(NAMES)


def load(name: str) -> Exchange:
    recording = raw(name)
    path = "generate" if '"response":' in recording["response"]["body"][:300] else "chat"
    url = recording["request"]["url"] if recording["request"] else f"http://x/api/{path}"
    dialect = dialect_for("POST", url)
    assert dialect is not None
    return corpus.load(name, dialect.name, url, None)


@each
def test_every_recording_gives_what_the_client_gives(name: str) -> None:
    exchange = load(name)
    wanted = expected()[name]
    (step,) = parse(exchange)
    if "result" not in wanted:
        assert (
            step.status == "error" and step.extra is not None and step.extra["http_status"] == wanted["error"]["status"]
        )
        return
    result = wanted["result"]
    (choice,) = result["choices"]
    assert (text(step), text(step, "reasoning")) == (choice["text"], choice["reasoning"])
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


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    exchange = load(name)
    plain, body = parse(exchange), exchange.response.body
    assert parse(exchange) == plain
    for other in packed(exchange, body):
        assert parse(other) == plain
    lines = body.replace(b"\r\n", b"\n")
    for end in (b"\r\n", b"\r", b"\n\n", b"\r\n\r\n"):
        assert parse(answered(exchange, lines.replace(b"\n", end))) == plain


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    whole = text(parse(exchange)[0])
    body = exchange.response.body
    ends = {*cuts(body), *(place for place, byte in enumerate(body) if byte == 10)}
    for cut in sorted(end for end in ends if end < len(body.rstrip()))[-200:]:
        (step,) = parse(answered(exchange, body[:cut], end="client_disconnect"))
        assert step.status in ("client_disconnect", "error")
        assert step.finish_reason is None and whole.startswith(text(step))


@each
def test_the_request_and_the_answer_come_back(name: str) -> None:
    exchange = load(name)
    (step,) = parse(exchange)
    dialect = dialect_for("POST", exchange.request.url)
    assert dialect is not None
    if raw(name)["request"]:
        assert said(dialect.request_of(step)) == said(json.loads(exchange.request.body))
    back = dialect.answer_of([step])
    if exchange.response.body.count(b"\n") <= 1 and b"\n{" not in exchange.response.body:
        assert said(back) == said(json.loads(exchange.response.body))
    else:  # lines: as the one object that they add up to, they are the same step
        (again,) = parse(answered(exchange, json.dumps(back).encode()))
        assert again == step


def said(value: Any) -> Any:
    """A body without its empty fields."""
    if isinstance(value, list):
        return [said(inner) for inner in value]
    if isinstance(value, dict):
        return {key: said(inner) for key, inner in value.items() if inner not in (None, "", [])}
    return value
