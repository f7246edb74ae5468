"""An Anthropic answer, plain or streamed: a response's bytes, a body, or a sequence of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from stepwell.exchange._anthropic.messages import part_from
from stepwell.exchange._anthropic.stream import STOP, StreamedMessage
from stepwell.exchange._body import beside_error, is_whole, loosely, partial_body, partial_event, without
from stepwell.exchange._canonical import Message
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Choice
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import Event, looks_like_events, parse_events

_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
_MODELLED = frozenset({"id", "type", "role", "model", "content", "usage", "error", *STOP})


def answer_of_response(response: Response) -> Answer:
    """The answer in a decoded response. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    body, whole = response.body, is_whole(response)
    if response.status is None or (not body.strip() and not whole):
        return Answer()
    if response.status >= 400:
        return Answer(error=loosely(body), terminated=whole, extra=beside_error(body, "type"))
    streamed = looks_like_events(header(response.headers, "content-type"), body)
    if streamed and not body.lstrip().startswith(b"{"):  # gateways leave the stream's label on a plain error
        return answer_from_events(_events(body, whole), whole)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Answer(extra=partial_body(body, whole, error))
    if not isinstance(value, dict):
        raise Unparseable("the response is no JSON object")
    return answer_from_body(value)


def answer_from_body(body: Mapping[str, Any]) -> Answer:
    """A plain answer's body, or an error's.

    Raises:
        Unparseable: it is neither.
    """
    if body.get("type") == "error" or body.get("error"):
        error = body.get("error") or without(dict(body), "type") or "an error without a word"
        return Answer(error=error, terminated=True, extra=without(dict(body), "type", "error"))
    content = body.get("content")
    if not isinstance(content, list | str) and not (content is None and body.get("stop_reason")):
        raise Unparseable("the response has no list of content blocks")
    blocks = [content] if isinstance(content, str) else content or []
    return _answer({**body, "content": blocks}, terminated=True)


def answer_from_events(events: Iterable[Mapping[str, Any]], whole: bool) -> Answer:
    """The answer that a stream's events make. `whole`: the transfer ended as it should, so that faults are the server's.

    Raises:
        Unparseable: the stream was whole, and is not what the API promises.
    """
    stream = StreamedMessage()
    for event in events:
        try:
            stream.add(event)
        except ValueError as error:
            if whole:
                raise Unparseable(f"an event of the stream cannot be read: {error}") from None
            stream.keep(event)
    message = stream.message()
    if stream.said:
        answer = _answer(message, terminated=stream.stopped or bool(stream.stop.get("stop_reason")))
        answer.error = stream.error
        return answer
    if whole and stream.error is None:
        raise Unparseable("the event stream holds no message")
    return Answer(error=stream.error, usage=message.get("usage"), extra=_rest(message))


def _events(body: bytes, whole: bool) -> Iterator[dict[str, Any]]:
    for event in parse_events(body):
        data = event.data.strip()
        if data == b"[DONE]":  # OpenAI's last word, which servers of both dialects say in this one too
            yield {"type": "message_stop"}
            return
        if data:
            value = _event(event, whole)
            if value is None:
                return
            yield value


def _event(event: Event, whole: bool) -> dict[str, Any] | None:
    """The event's object; its name stands in for a type that is missing. None when it was cut in the middle."""
    name = event.type.decode(errors="replace")
    try:
        value = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        if (value := partial_event(event, whole, error)) is None:
            return None
    if isinstance(value, dict):
        return value if value.get("type") or not name else {**value, "type": name}
    if name == "error":
        return {"type": "error", "error": value}
    if whole:
        raise Unparseable("an event of the stream is no JSON object")
    return {"type": name, "data": value}


def _answer(body: Mapping[str, Any], *, terminated: bool) -> Answer:
    return Answer(
        choices=[_choice(body)],
        model=body.get("model"),
        response_id=body.get("id"),
        usage=body.get("usage"),
        terminated=terminated,
        extra=_rest(body),
    )


def _choice(body: Mapping[str, Any]) -> Choice:
    reason = body.get("stop_reason") or None
    return Choice(
        message=_message(body["content"]),
        finish_reason=reason,
        cut=isinstance(reason, str) and reason in _CUT,
        extra={key: body[key] for key in STOP[1:] if body.get(key) is not None},
    )


def _message(blocks: Iterable[Any]) -> Message:
    try:
        return {"role": "assistant", "content": [part_from(block) for block in blocks]}
    except ValueError as error:
        raise Unparseable(f"the answer's message cannot be read: {error}") from None


def _rest(body: Mapping[str, Any]) -> dict[str, Any]:
    return without(dict(body), *_MODELLED)
