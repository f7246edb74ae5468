"""Models on Bedrock that speak OpenAI's chat protocol: gpt-oss, Mistral, DeepSeek, Qwen, Jamba and most that came since.

Mistral's own variant calls the reason `stop_reason`, and the pieces of a stream `message` instead of `delta`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from stepwell.exchange._bedrock.text import LENGTH
from stepwell.exchange._body import without
from stepwell.exchange._chat.messages import canonical_messages
from stepwell.exchange._chat.rebuild import answer_body, request_body
from stepwell.exchange._chat.reply import Reply, answer_of_reply, read_reply, said_in
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Asked, Choice
from stepwell.exchange._raw import Response
from stepwell.sdk.records import Step

_KEPT = frozenset({"stream", "stream_options", "user", "metadata"})
NAMED = "model_in_body"
"""Marks a request whose body names the model as well as its path."""


def asked_from(body: Mapping[str, Any], model: str | None) -> Asked:
    """A chat request. Raises Unparseable when it is none."""
    if not isinstance(body.get("messages"), list):
        raise Unparseable("the request has no list of messages")
    try:
        messages = canonical_messages(body["messages"])
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None
    extra = {key: value for key, value in body.items() if key in _KEPT}
    if "model" in body:
        extra[NAMED] = body["model"]
    return Asked(
        messages,
        tools=body.get("tools"),
        sampling={key: value for key, value in body.items() if key not in _KEPT | {"messages", "tools", "model"}},
        model=model or body.get("model"),
        extra=extra,
    )


def answer_from_body(value: Mapping[str, Any]) -> Answer:
    """A plain chat answer. Raises Unparseable when it is none."""
    return _answer(read_reply(_response("application/json", _dumped(_usual(value)))))


def answer_from_events(values: Iterable[Mapping[str, Any]], whole: bool) -> Answer:
    """The chunks of a chat stream. Raises Unparseable when they are none."""
    events = b"".join(b"data: %b\n\n" % _dumped(_usual(value, "delta")) for value in values)
    return _answer(read_reply(_response("text/event-stream", events, whole)))


def _dumped(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:  # what can be read may be nested too deeply to be written
        raise Unparseable(f"the answer cannot be read: {error}") from None


def _response(kind: str, body: bytes, whole: bool = True) -> Response:
    return Response(200, [("content-type", kind)], body, "complete" if whole else "client_disconnect", 0)


def _usual(value: Mapping[str, Any], message: str = "message") -> dict[str, Any]:
    """The same in OpenAI's words."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        return dict(value)
    return {**value, "choices": [_usual_choice(choice, message) for choice in choices]}


def _usual_choice(choice: object, message: str) -> object:
    if not isinstance(choice, dict):
        return choice
    made = dict(choice)
    if "message" in made and message not in made:
        made[message] = made.pop("message")
    if "stop_reason" in made and made.get("finish_reason") is None:
        made["finish_reason"] = made.pop("stop_reason")
    return made


def _answer(reply: Reply) -> Answer:
    return answer_of_reply(reply, [_choice(reply.choices[index]) for index in sorted(reply.choices)])


def _choice(choice: dict[str, Any]) -> Choice:
    reason = choice.get("finish_reason") or None
    return Choice(
        message=said_in(choice),
        index=choice["index"],
        finish_reason=reason,
        cut=isinstance(reason, str) and reason in LENGTH,
        failed=reason == "error" or bool(choice.get("error")),
        extra=without(choice, "index", "message", "finish_reason"),
    )


def request_of(step: Step) -> dict[str, Any]:
    """The body that `asked_from` read; the model is where it was."""
    body = request_body(step)
    body.pop("model", None)
    if NAMED in body:
        body["model"] = body.pop(NAMED)
    return body


def answer_of(steps: Sequence[Step]) -> dict[str, Any]:
    """The plain body of the answer that the steps came from."""
    return answer_body(steps)
