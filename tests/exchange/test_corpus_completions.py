"""Recorded traffic of the completions API, against what the vendor's SDK makes of it (skipped where the recordings are absent)."""

from __future__ import annotations

import json
from typing import Any

from stepwell.exchange import Exchange, dialect_for, parse

from . import corpus
from .corpus import answered, cuts, each_of, expected, manifest, names, needed, plain_body, raw, recoded, subset, text

NAMES = names("openai_completions")

pytestmark = needed(NAMES)
each = each_of(NAMES)
each_asked = each_of(name for name in NAMES if manifest()[name]["request_recorded"])


def load(name: str) -> Exchange:
    """A recording, its answer without the coding it came in."""
    exchange = corpus.load(name, "openai.completions", "http://x/v1/completions", None)
    return answered(exchange, plain_body(exchange))


@each
def test_every_recording_gives_what_the_sdk_gives(name: str) -> None:
    recording, exchange = raw(name), load(name)
    if recording["request"]:
        dialect = dialect_for(recording["request"]["method"], recording["request"]["url"])
        assert dialect is not None and dialect.name == exchange.dialect
    wanted, steps = expected()[name], parse(exchange)
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


@each_asked
def test_every_choice_answers_its_own_prompt(name: str) -> None:
    exchange = load(name)
    body = json.loads(exchange.request.body)
    prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
    dialect = dialect_for("POST", "/v1/completions")
    assert dialect is not None
    for step in parse(exchange):
        place = int(step.step_id.rpartition(".")[2]) // (body.get("n") or 1) if len(prompts) > 1 else 0
        assert dialect.request_of(step)["prompt"] == prompts[place]


@each
def test_no_line_end_and_no_coding_changes_a_step(name: str) -> None:
    exchange = load(name)
    plain = parse(exchange)
    for other in recoded(exchange, exchange.response.body):
        assert parse(other) == plain


@each
def test_a_recording_cut_anywhere_is_never_a_crash_nor_taken_for_whole(name: str) -> None:
    exchange = load(name)
    whole, body = [text(step) for step in parse(exchange)], exchange.response.body
    for cut in cuts(body.rstrip()):
        for step in parse(answered(exchange, body[:cut], end="client_disconnect")):
            assert step.status != "ok" or step.finish_reason is not None
            assert any(said.startswith(text(step)) for said in whole)


@each
def test_the_request_and_the_answer_come_back(name: str) -> None:
    recording, exchange = raw(name), load(name)
    steps, dialect = parse(exchange), dialect_for("POST", "/v1/completions")
    assert dialect is not None
    if recording["request"]:
        asked = json.loads(exchange.request.body)
        assert {**dialect.request_of(steps[0]), "prompt": 0} == {**asked, "prompt": 0}
    back = json.loads(json.dumps(dialect.answer_of(steps)))
    if exchange.response.body.startswith(b"data:"):
        again = parse(answered(exchange, json.dumps(back).encode(), headers=[("content-type", "application/json")]))
        assert [step.response for step in again] == [step.response for step in steps]
    else:
        original = json.loads(exchange.response.body)
        for place, choice in enumerate(original.get("choices", ())):
            original.setdefault("object", "text_completion")
            choice.setdefault("index", place)
        assert said(back) == said(original)


def said(value: Any) -> Any:
    """A body without its empty fields; Writer's servers leave out the choices' numbers, and what the object is."""
    if isinstance(value, list):
        return [said(inner) for inner in value]
    if isinstance(value, dict):
        return {key: said(inner) for key, inner in value.items() if inner not in (None, "")}
    return value
