"""Recorded traffic of the completions API, against what the vendor's SDK makes of it (skipped where the recordings are absent)."""

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

from stepwell.exchange import Exchange, Request, Response, decode, dialect_for, parse
from stepwell.sdk.records import Step

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
FOLDER = CORPUS / "exchanges" / "openai_completions"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

pytestmark = pytest.mark.skipif(not NAMES, reason="needs the recorded exchanges in ../shared/corpus")
each = pytest.mark.parametrize("name", NAMES)


@lru_cache
def expected() -> dict[str, dict[str, Any]]:
    lines = (CORPUS / "EXPECTED.jsonl").read_text(encoding="utf8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def load(name: str) -> tuple[dict[str, Any], Exchange]:
    """A recording, its answer without the coding it came in."""
    raw = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf8"))
    asked, answered = raw["request"], raw["response"]
    body = base64.b64decode(answered["body_b64"]) if "body_b64" in answered else answered["body"].encode()
    headers = [(key.lower(), value) for key, value in answered["headers"]]
    coding = next((value for key, value in headers if key == "content-encoding"), "")
    decoded = decode(body, coding)
    return raw, Exchange(
        id=name,
        dialect="openai.completions",
        request=Request("POST", asked["url"] if asked else "http://x/v1/completions", [],
                        asked["body"].encode() if asked else b"{}", 1),
        response=Response(answered["status"] or 200, [pair for pair in headers if pair[0] != "content-encoding"],
                          body if decoded.problem else decoded.body, "complete", 2),
        request_known=asked is not None,
    )  # fmt: skip


def with_answer(exchange: Exchange, body: bytes, **options: Any) -> Exchange:
    headers = [*exchange.response.headers, *options.pop("headers", [])]
    response = Response(exchange.response.status, headers, body, options.pop("end", "complete"), 2)
    return Exchange(exchange.id, exchange.dialect, exchange.request, response, request_known=exchange.request_known)


def text(step: Step) -> str:
    assert step.response is not None
    return "".join(part["text"] for part in step.response["content"] if part["type"] == "text")


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    raw, exchange = load(name)
    if raw["request"]:
        dialect = dialect_for(raw["request"]["method"], raw["request"]["url"])
        assert dialect is not None and dialect.name == exchange.dialect
    wanted, steps = expected()[f"openai_completions/{name}"], parse(exchange)
    if "result" not in wanted:
        assert [step.status for step in steps] == ["error"]
        return
    result = wanted["result"]
    assert [(text(step), step.finish_reason) for step in steps] == [
        (choice["text"], choice["finish_reason"]) for choice in result["choices"]
    ]
    for place, (step, choice) in enumerate(zip(steps, result["choices"], strict=True)):
        assert step.step_id == f"{name}.{place if choice['index'] is None else choice['index']}"
        assert step.status == ("truncated" if choice["finish_reason"] == "length" else "ok")
        assert (step.response_id, step.model) == (result["response_id"], result["model"])
        assert subset(result["usage"], step.usage)
        if choice.get("logprob_tokens"):
            assert step.extra is not None
            assert step.extra["choice"]["logprobs"]["tokens"] == choice["logprob_tokens"]


def subset(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(subset(value, found.get(key)) for key, value in wanted.items())
    return wanted is None or bool(wanted == found)


@each
def test_every_choice_answers_its_own_prompt(name: str) -> None:
    raw, exchange = load(name)
    if not raw["request"]:
        pytest.skip("the request was not recorded")
    body = json.loads(exchange.request.body)
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
    dialect = dialect_for("POST", "/v1/completions")
    assert dialect is not None
    for step in parse(exchange):
        place = int(step.step_id.rpartition(".")[2]) // (body.get("n") or 1) if len(prompts) > 1 else 0
        assert dialect.request_of(step)["prompt"] == prompts[place]


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    _, exchange = load(name)
    plain, body = parse(exchange), exchange.response.body
    packed = {"gzip": gzip.compress(body), "br": brotli.compress(body), "zstd": zstandard.compress(body)}
    for coding, packed_body in packed.items():
        assert parse(with_answer(exchange, packed_body, headers=[("content-encoding", coding)])) == plain
    if body.startswith(b"data:"):
        lines = body.replace(b"\r\n", b"\n")
        for end in (b"\r\n", b"\r"):
            assert parse(with_answer(exchange, lines.replace(b"\n", end))) == plain


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    _, exchange = load(name)
    whole, body = [text(step) for step in parse(exchange)], exchange.response.body
    for cut in range(0, len(body.rstrip()), max(1, len(body) // 40)):
        for step in parse(with_answer(exchange, body[:cut], end="client_disconnect")):
            assert step.status != "ok" or step.finish_reason is not None
            assert any(said.startswith(text(step)) for said in whole)


@each
def test_the_request_and_the_answer_come_back(name: str) -> None:
    raw, exchange = load(name)
    steps, dialect = parse(exchange), dialect_for("POST", "/v1/completions")
    assert dialect is not None
    if raw["request"]:
        asked = json.loads(exchange.request.body)
        assert {**dialect.request_of(steps[0]), "prompt": 0} == {**asked, "prompt": 0}
    answered = json.loads(json.dumps(dialect.answer_of(steps)))
    if exchange.response.body.startswith(b"data:"):
        again = parse(
            with_answer(exchange, json.dumps(answered).encode(), headers=[("content-type", "application/json")])
        )
        assert [step.response for step in again] == [step.response for step in steps]
    else:
        original = json.loads(exchange.response.body)
        for place, choice in enumerate(original.get("choices", ())):
            original.setdefault("object", "text_completion")
            choice.setdefault("index", place)
        assert said(answered) == said(original)


def said(value: Any) -> Any:
    """A body without its empty fields; Writer's servers leave out the choices' numbers, and what the object is."""
    if isinstance(value, list):
        return [said(inner) for inner in value]
    if isinstance(value, dict):
        return {key: said(inner) for key, inner in value.items() if inner not in (None, "")}
    return value
