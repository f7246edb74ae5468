"""The OpenAI Responses API, and every server that speaks it: plain, streamed, and turn by turn over a WebSocket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stepwell.exchange._body import request_object, without
from stepwell.exchange._canonical import Message
from stepwell.exchange._chat.tokens import policy_of
from stepwell.exchange._dialect import Context, NoStep, Unparseable
from stepwell.exchange._generation import Answer, Asked, Choice, Tokens, steps_of
from stepwell.exchange._raw import Exchange
from stepwell.exchange._responses.echo import unechoed
from stepwell.exchange._responses.items import answer_message, input_messages, item_tools
from stepwell.exchange._responses.rebuild import answer_body, request_body
from stepwell.exchange._responses.reply import PENDING, Reply, read_reply
from stepwell.exchange._responses.steered import Turn, steered, turn_of
from stepwell.exchange._responses.tokens import FIELDS, tokens_of, without_ids
from stepwell.sdk.records import Step

_MESSAGES_FLAG = "enable_response_messages"
_KEPT_REQUEST = frozenset(
    {
        "type", "event_id", "stream_id", "generate", "stream", "stream_options", "background", "store", "include", "user",
        "safety_identifier", "metadata", "client_metadata", "conversation", "prompt", "context_management", "service_tier",
        "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "request_id", _MESSAGES_FLAG,
    }
)  # fmt: skip
_STARTS = ("input", "instructions", "prompt", "previous_response_id", "conversation")
_MODELLED_REQUEST = frozenset({"input", "instructions", "tools", "model", "previous_response_id"})
_MODELLED_ROOT = frozenset({"id", "object", "model", "usage", "output_text"})
_NOT_LENGTH = ("content_filter", "steered")


class OpenAIResponses:
    """`POST …/responses`, and what is created or steered on a socket opened at the same path."""

    name = "openai.responses"

    def matches(self, method: str, path: str) -> bool:
        return method in ("POST", "WEBSOCKET") and path.endswith("/responses")

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        # vLLM gives the ids with an answer that it does not put aside for later only.
        if engine != "vllm" or body.get("background") or body.get(_MESSAGES_FLAG) is True:
            return {}
        return {_MESSAGES_FLAG: True}

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        body, reply, lacking = _read(exchange)
        asked = _asked(exchange, body)
        if body.get("generate") is False:
            raise NoStep("a warm-up", _context(asked, reply) if lacking is None else None)
        if not reply.streamed and reply.status in PENDING and (body.get("background") or reply.root.get("background")):
            raise NoStep("answered later")
        steps = steps_of(_as_http(exchange), asked, _answer(reply, without(body, *exchange.added), exchange.added))
        return steps if lacking is None else [_incomplete(step, lacking) for step in steps]

    def request_of(self, step: Step) -> dict[str, Any]:
        return request_body(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return answer_body(steps)


def _as_http(exchange: Exchange) -> Exchange:
    """A turn on a socket gives the step that the same call over HTTP would have given: 101 is of the socket, not of the turn."""
    response = exchange.response
    return replace(exchange, response=replace(response, status=200)) if response.status == 101 else exchange


def _read(exchange: Exchange) -> tuple[dict[str, Any], Reply, str | None]:
    """The request's fields, the reply, and what is not known of the prompt (None: nothing lacks)."""
    asked, lacking = exchange.request, None
    turn = turn_of(asked.body) if asked.method == "WEBSOCKET" else Turn((), request_object(asked.body))
    reply = read_reply(exchange.response)
    body = turn.create or {}
    if turn.steers:
        body, lacking = steered(turn, reply)
    if all(body.get(name) is None for name in _STARTS):
        raise Unparseable("the request has no input")
    return body, reply, lacking


def _incomplete(step: Step, lacking: str) -> Step:
    reason = f"the prompt is incomplete: {lacking}"
    return step.model_copy(update={"trainable": False, "untrainable_reason": reason})


def _asked(exchange: Exchange, body: dict[str, Any]) -> Asked:
    messages = _messages(body)
    tools = body.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise Unparseable("the request's tools are no list")
    sent = without(body, *exchange.added, *_MODELLED_REQUEST)
    odd = {key: body[key] for key in ("instructions",) if body.get(key) is not None and not _says(body[key])}
    return Asked(
        messages=messages,
        tools=[*(tools or []), *item_tools(messages)] or None,
        sampling={key: value for key, value in sent.items() if key not in _KEPT_REQUEST},
        model=body.get("model"),
        continues=_continues(body),
        extra={**{key: value for key, value in sent.items() if key in _KEPT_REQUEST}, **odd},
    )


def _messages(body: dict[str, Any]) -> list[Message]:
    asked = body.get("input")
    first = [_field("instructions", "system", body["instructions"])] if _says(body.get("instructions")) else []
    if isinstance(asked, str):
        return [*first, _field("input", "user", asked)]
    if asked is not None and not isinstance(asked, list):
        raise Unparseable("the request's input is neither text nor a list of items")
    try:
        return [*first, *input_messages(asked or [])]
    except ValueError as error:
        raise Unparseable(f"an item of the request's input cannot be read: {error}") from None


def _says(instructions: object) -> bool:
    return isinstance(instructions, str) and instructions != ""


def _field(name: str, role: str, text: str) -> Message:
    return {"role": role, "content": [{"type": "text", "text": text}] if text else [], "extra": {"field": name}}


def _continues(body: Mapping[str, Any]) -> str | None:
    if isinstance(previous := body.get("previous_response_id"), str) and previous:
        return f"response:{previous}"
    conversation = body.get("conversation")
    id_ = conversation.get("id") if isinstance(conversation, Mapping) else conversation
    return f"conversation:{id_}" if isinstance(id_, str) and id_ else None


def _context(asked: Asked, reply: Reply) -> Context | None:
    """What later calls may continue: nothing, when the server never named it."""
    id_ = reply.root.get("id")
    if not isinstance(id_, str) or not id_ or reply.error is not None:
        return None
    return Context(id_, asked.messages, asked.tools, asked.continues)


def _answer(reply: Reply, asked: Mapping[str, Any], added: Sequence[str]) -> Answer:
    root = reply.root
    tokens = tokens_of(root)
    modelled = {*_MODELLED_ROOT, *(["status"] if _finished(reply) else [])}
    if tokens.prompt_ids is not None or _MESSAGES_FLAG in added:
        modelled.update(FIELDS)  # without ids they are the conversation once more, and nobody but the route wanted them
    own, echoed = unechoed({key: value for key, value in root.items() if key not in modelled}, asked)
    return Answer(
        choices=[_choice(reply, tokens)] if reply.output or root else [],
        model=root.get("model"),
        response_id=root.get("id"),
        usage=root.get("usage"),
        terminated=reply.terminated,
        error=reply.error,
        extra={**own, **without_ids(root, tokens), **({"echoed": echoed} if echoed else {})},
    )


def _finished(reply: Reply) -> Any:
    """The status, once it is the last one."""
    return reply.status if reply.terminated and reply.status not in PENDING else None


def _choice(reply: Reply, tokens: Tokens) -> Choice:
    details = reply.root.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, Mapping) else None
    version, label = policy_of(without(reply.root, "metadata"), {})  # which is the client's own here
    try:
        message = answer_message(reply.output)
    except ValueError as error:
        raise Unparseable(f"an item of the answer cannot be read: {error}") from None
    finished = _finished(reply)
    return Choice(
        message=message,
        finish_reason=finished,
        cut=finished == "incomplete" and reason not in _NOT_LENGTH,
        failed=finished in ("failed", "cancelled"),
        tokens=tokens,
        policy_version=version,
        policy_label=label,
    )
