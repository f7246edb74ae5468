"""Bedrock's invoke API: the model's own protocol in a plain body, or event by event inside the frames of a stream."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from stepwell.exchange._anthropic.messages import asked_from as anthropic_asked
from stepwell.exchange._anthropic.rebuild import body_from, request_from
from stepwell.exchange._anthropic.reply import answer_from_body as anthropic_body
from stepwell.exchange._anthropic.reply import answer_from_events as anthropic_events
from stepwell.exchange._bedrock import chat, cohere, converse, text
from stepwell.exchange._bedrock import reply as nova
from stepwell.exchange._bedrock.families import Family, answered_family, asked_family, no_answer, no_step
from stepwell.exchange._bedrock.wire import BedrockAPI, error_in, model_of, read_answer, read_events, request_id
from stepwell.exchange._body import request_object
from stepwell.exchange._dialect import NoStep, Unparseable
from stepwell.exchange._generation import Answer, Asked, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_OWN = "amazon-bedrock-"
"""What Bedrock puts into a model's answer begins like this: metrics, guardrail actions, traces."""
_METRICS = "amazon-bedrock-invocationMetrics"
_FAMILY = "family"
"""Where a step's extra says which family a body was of."""
_ABSENT = "absent"
"""Where it says which of the step's fields the body did not have."""


@dataclass(frozen=True, slots=True)
class _Protocol:
    """How one family of models asks and answers."""

    asked: Callable[[Mapping[str, Any], str | None], Asked]
    body: Callable[[dict[str, Any]], Answer]
    events: Callable[[list[dict[str, Any]], bool], Answer]
    request_of: Callable[[Step], dict[str, Any]]
    answer_of: Callable[[Sequence[Step]], dict[str, Any]]


def _nova_events(values: Iterable[Mapping[str, Any]], whole: bool) -> Answer:
    named = ((kind, event) for value in values for kind, event in value.items())
    return nova.answer_from_events(((kind, event) for kind, event in named if isinstance(event, Mapping)), whole)


_PROTOCOLS: dict[Family, _Protocol] = {
    "anthropic": _Protocol(anthropic_asked, anthropic_body, anthropic_events, request_from, body_from),
    "nova": _Protocol(
        converse.asked_from,
        nova.answer_from_body,
        _nova_events,
        converse.request_of,
        converse.answer_of,
    ),
    "chat": _Protocol(chat.asked_from, chat.answer_from_body, chat.answer_from_events, chat.request_of, chat.answer_of),
    "cohere": _Protocol(
        cohere.asked_from,
        cohere.answer_from_body,
        lambda values, _: cohere.answer_from_events(values),
        cohere.request_of,
        cohere.answer_of,
    ),
    "text": _Protocol(
        text.asked_from,
        lambda value: text.answer_from([value]),
        text.answer_from,
        text.request_of,
        text.answer_of,
    ),
}


class BedrockInvoke(BedrockAPI):
    """`POST …/model/<id>/invoke` and `…/invoke-with-response-stream`."""

    name = "bedrock.invoke"
    operations = frozenset({"invoke", "invoke-with-response-stream"})

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        model, body = model_of(exchange.request.url), request_object(exchange.request.body)
        if reason := no_step(body, model):
            raise NoStep(f"{reason}, not a generation of text")
        family = asked_family(body, model)
        asked = _PROTOCOLS[family].asked(body, model)
        asked.extra = {**asked.extra, _FAMILY: family}
        answer = read_answer(
            exchange.response, lambda value: _plain(value, family), lambda raw, whole: _streamed(raw, whole, family)
        )
        _complete(answer, model, request_id(exchange.response))
        return steps_of(exchange, asked, answer)

    def request_of(self, step: Step) -> dict[str, Any]:
        family, bare = _bare(step, "request")
        return _PROTOCOLS[family or "text"].request_of(bare)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        bare = [_bare(step, "response") for step in steps]
        family, said = bare[0][0], [step for _, step in bare]
        extra = said[0].extra or {}
        error = extra.get("error")
        if family is not None:
            body = _PROTOCOLS[family].answer_of(said)
            return body if error is None else {"error": error, **body}
        rest = {**(extra.get("response") or {}), **({} if error is None else {"message": error})}
        return dict(error) if isinstance(error, dict) else rest


def _bare(step: Step, section: str) -> tuple[Family | None, Step]:
    """The family that a step's extra names, and the step with what the body had, and nothing else."""
    extra = dict(step.extra or {})
    fields = dict(extra.get(section) or {})
    family: Family | None = fields.pop(_FAMILY, None)
    absent: dict[str, Any] = dict.fromkeys(fields.pop(_ABSENT, ()))
    return family, step.model_copy(update={"extra": {**extra, section: fields}, **absent})


def _plain(value: object, asked: Family) -> Answer:
    if not isinstance(value, dict):
        raise Unparseable("the response is no JSON object")
    if reason := no_answer(value):
        raise NoStep(f"{reason}, not a generation of text")
    if (error := error_in(value)) is not None:
        return Answer(error=error, terminated=True)
    family = answered_family(value) or asked
    own = _taken(value)
    answer = _PROTOCOLS[family].body(value)
    answer.terminated = True
    answer.extra = {**answer.extra, **own, _FAMILY: family}
    return answer


def _streamed(body: bytes, whole: bool, asked: Family) -> Answer:
    stream = read_events(body, whole)
    values, others = _said_by(stream.events, whole)
    own: dict[str, Any] = {"events": others} if others else {}
    for value in values:
        own |= _taken(value)
    error = next((said for value in values if (said := error_in(value)) is not None), stream.error)
    said = [value for value in values if value and error_in(value) is None]
    if not said:
        return Answer(error=error, extra=own)
    family = _first_family(said) or asked
    answer = _PROTOCOLS[family].events(said, whole and error is None)
    answer.error = answer.error or error
    answer.terminated = answer.terminated or _METRICS in own  # in the last event of every model
    answer.extra = {**answer.extra, **own, _FAMILY: family}
    return answer


def _first_family(values: Iterable[Mapping[str, Any]]) -> Family | None:
    for value in values:
        if family := answered_family(value):
            return family
    return None


def _said_by(
    events: Iterable[tuple[str, dict[str, Any]]], whole: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The model's own events and Bedrock's, of a stream that ended early up to the first that cannot be read."""
    values: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for kind, event in events:
        if kind != "chunk":
            others.append({kind: event})
            continue
        try:
            values.append(_inner(event))
        except Unparseable:
            if whole:
                raise
            break
    return values, others


def _inner(event: Mapping[str, Any]) -> dict[str, Any]:
    """The model's own event inside a frame's."""
    packed = event.get("bytes")
    try:
        value = orjson.loads(base64.b64decode(packed, validate=True)) if isinstance(packed, str) else None
    except (binascii.Error, ValueError) as error:
        raise Unparseable(f"a chunk of the stream holds no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unparseable("a chunk of the stream holds no JSON object")
    return value


def _taken(value: dict[str, Any]) -> dict[str, Any]:
    """Bedrock's own fields, taken out of what is the model's."""
    return {key: value.pop(key) for key in list(value) if key.startswith(_OWN)}


def _complete(answer: Answer, model: str | None, response_id: str | None) -> None:
    """What a body leaves out and the call knows. A stream's metrics count its tokens, where the model does not."""
    metrics = answer.extra.get(_METRICS)
    counts = (
        {key: count for key, count in metrics.items() if key.endswith("Count")} if isinstance(metrics, dict) else {}
    )
    known = {"model": model if answer.choices else None, "response_id": response_id, "usage": counts or None}
    absent = [name for name, value in known.items() if value is not None and not getattr(answer, name)]
    for name in absent:
        setattr(answer, name, known[name])
    if absent and _FAMILY in answer.extra:
        answer.extra = {**answer.extra, _ABSENT: absent}
