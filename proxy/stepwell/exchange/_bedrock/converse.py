"""Bedrock's Converse API: one protocol for every model there, plain and streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.exchange._bedrock.messages import messages_from
from stepwell.exchange._bedrock.rebuild import conversation_of, message_of
from stepwell.exchange._bedrock.reply import answer_from_body, answer_from_events
from stepwell.exchange._bedrock.wire import BedrockAPI, model_of, read_answer, read_events, request_id
from stepwell.exchange._body import request_object
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Asked, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_KEPT = frozenset(
    {
        "additionalModelResponseFieldPaths",
        "projectIdentifier",
        "promptVariables",
        "requestMetadata",
        "schemaVersion",
        "serviceTier",
        "stream",
    }
)
"""Request fields that do not steer the generation. Variables fill a prompt that Bedrock keeps."""


class BedrockConverse(BedrockAPI):
    """`POST …/model/<id>/converse` and `…/converse-stream`."""

    name = "bedrock.converse"
    operations = frozenset({"converse", "converse-stream"})

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        model = model_of(exchange.request.url)
        asked = asked_from(request_object(exchange.request.body), model)
        answer = read_answer(exchange.response, answer_from_body, _streamed)
        if answer.choices:
            answer.model = answer.model or model
        answer.response_id = request_id(exchange.response)
        return steps_of(exchange, asked, answer)

    def request_of(self, step: Step) -> dict[str, Any]:
        return request_of(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return answer_of(steps)


def asked_from(body: Mapping[str, Any], model: str | None) -> Asked:
    """What a Converse request asks; Nova's own protocol has the same form. Raises Unparseable when it is none."""
    messages = body.get("messages")
    if messages is None and "promptVariables" in body:
        messages = []  # all of the prompt is a managed one, which the model's ARN names
    try:
        conversation = messages_from(body.get("system"), messages)
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None
    config = body.get("toolConfig") or {}
    if not isinstance(config, Mapping):
        raise Unparseable("the request's toolConfig is no object")
    modelled = {"messages", "system", "toolConfig", *_KEPT}
    sampling = {key: value for key, value in body.items() if key not in modelled}
    if "toolChoice" in config:
        sampling["toolChoice"] = config["toolChoice"]
    extra = {key: value for key, value in body.items() if key in _KEPT}
    if rest := {key: value for key, value in config.items() if key not in ("tools", "toolChoice")}:
        extra["toolConfig"] = rest
    return Asked(conversation, tools=config.get("tools"), sampling=sampling, model=model, extra=extra)


def _streamed(body: bytes, whole: bool) -> Answer:
    stream = read_events(body, whole)
    answer = answer_from_events(stream.events, whole)
    answer.error = stream.error
    return answer


def request_of(step: Step) -> dict[str, Any]:
    """The body of the request that a step came from. The model is in the path."""
    sampling, extra = dict(step.sampling or {}), dict((step.extra or {}).get("request") or {})
    config = dict(extra.pop("toolConfig", {}))
    if step.tools is not None:
        config["tools"] = step.tools
    if "toolChoice" in sampling:
        config["toolChoice"] = sampling.pop("toolChoice")
    body = {**conversation_of(step.messages or []), **sampling, **extra}
    return {**body, "toolConfig": config} if config else body


def answer_of(steps: Sequence[Step]) -> dict[str, Any]:
    """The body of the answer that the step of an exchange came from; of a failed call, its error."""
    step, extra = steps[0], steps[0].extra or {}
    response, said = dict(extra.get("response") or {}), step.response or {}
    failed = "error" in extra
    if failed and not said.get("content"):
        error = extra["error"]
        return dict(error) if isinstance(error, dict) else {"message": error}
    rest = response.get("output")
    output = {**(rest if isinstance(rest, dict) else {}), "message": message_of(said)}
    body: dict[str, Any] = {**response, "output": output}
    if step.finish_reason:
        body["stopReason"] = step.finish_reason
    if step.usage is not None:
        body["usage"] = step.usage
    return {**body, "error": extra["error"]} if failed else body
