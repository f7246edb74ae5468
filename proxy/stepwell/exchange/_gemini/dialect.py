"""Gemini's generateContent: Google AI, Vertex AI and Code Assist; plain and streamed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from stepwell.exchange._body import request_object
from stepwell.exchange._dialect import Unparseable, WithoutFlags
from stepwell.exchange._gemini.messages import canonical_content
from stepwell.exchange._gemini.rebuild import NOTE, answer_body, request_body
from stepwell.exchange._gemini.reply import read_answer
from stepwell.exchange._gemini.words import spelled
from stepwell.exchange._generation import Asked, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_VERBS = frozenset({"generateContent", "streamGenerateContent"})
_COLLECTIONS = ("/models/", "/tunedModels/", "/endpoints/")
"""What has a generateContent: models, tuned ones, and Vertex's endpoints with a model behind."""
_CODE_ASSIST = "/v1internal"
_STEERING = ("toolConfig", "safetySettings")


class Gemini(WithoutFlags):
    """`POST …/models/<model>:generateContent` and `:streamGenerateContent`, and Code Assist's `/v1internal:…` of the same names."""

    name = "gemini"

    def matches(self, method: str, path: str) -> bool:
        if method != "POST":
            return False
        resource, _, verb = path.rpartition(":")
        return verb in _VERBS and (
            resource.endswith(_CODE_ASSIST) or any(collection in resource for collection in _COLLECTIONS)
        )

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        resource = _resource(exchange.request.url)
        vertex = "/publishers/" in resource or "/projects/" in resource
        return steps_of(exchange, _asked(exchange, resource), read_answer(exchange.response, vertex=vertex))

    def request_of(self, step: Step) -> dict[str, Any]:
        return request_body(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return answer_body(steps)


def _resource(url: str) -> str:
    return url.partition("?")[0].rpartition(":")[0]


def _model(resource: str) -> str | None:
    """The model in a path. A tuned model, or an endpoint, keeps the word that says so."""
    place, collection = max((resource.rfind(collection), collection) for collection in _COLLECTIONS)
    if place < 0:
        return None
    name = unquote(resource[place + len(collection) :])
    return name if collection == "/models/" else f"{collection[1:]}{name}"


def _asked(exchange: Exchange, resource: str) -> Asked:
    body = {name: value for name, value in request_object(exchange.request.body).items() if name not in exchange.added}
    fields = spelled(body)
    model = _model(resource)
    extra: dict[str, Any] = {}
    if model is None and isinstance(inner := fields.get("request"), dict):
        model = fields["model"] if isinstance(fields.get("model"), str) else None
        extra["envelope"] = {name: value for name, value in fields.items() if name not in ("model", "request")}
        fields = spelled(inner)
    if "contents" not in fields:
        raise Unparseable("the request has no contents")
    contents, system, tools = (fields.pop(name, None) for name in ("contents", "systemInstruction", "tools"))
    messages = [] if system is None else [canonical_content(system, "system")]
    messages += [canonical_content(content) for content in (contents if isinstance(contents, list) else [contents])]
    sampling = _sampling(fields)
    if "cachedContent" in fields:
        extra[NOTE] = "the prompt begins with cached content that was not sent along"
    tools = [tools] if isinstance(tools, dict) else tools
    return Asked(messages=messages, tools=tools or None, sampling=sampling, model=model, extra={**fields, **extra})


def _sampling(fields: dict[str, Any]) -> dict[str, Any]:
    """What steers the generation, taken out of `fields`: the content of generationConfig, beside the fields that are its peers."""
    config = fields.get("generationConfig")
    sampling = spelled(fields.pop("generationConfig")) if isinstance(config, dict) else {}
    return {**sampling, **{name: fields.pop(name) for name in _STEERING if name in fields}}
