"""An OpenAI chat answer, plain or streamed, put together into one reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.exchange._body import beside_error, is_whole, loosely, partial_body, partial_event, without
from stepwell.exchange._canonical import Message
from stepwell.exchange._chat.choice import StreamedChoice, listed, message_of
from stepwell.exchange._chat.halves import has_halves, loads, loads_whole, whole_characters
from stepwell.exchange._chat.messages import canonical_message
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Choice
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import Event, looks_like_events, parse_events

_OWN = ("choices", "error")
"""A chunk's fields that are none of the root's."""
_MODELLED_ROOT = ("id", "object", "model", "usage")


@dataclass(slots=True)
class Reply:
    """What came back: the root's fields, the choices by index, whether it ended as the protocol says, an error if it held one."""

    root: dict[str, Any] = field(default_factory=dict)
    choices: dict[int, dict[str, Any]] = field(default_factory=dict)
    terminated: bool = False
    error: Any = None


def read_reply(response: Response) -> Reply:
    """The reply in a decoded response. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    body = response.body
    whole = is_whole(response)
    if response.status is None or (not body.strip() and not whole):
        return Reply()
    if response.status >= 400:
        return Reply(root=beside_error(body, "choices"), terminated=whole, error=loosely(body))
    try:
        return _read(body, header(response.headers, "content-type"), whole)
    except RecursionError:
        raise Unparseable("the response is nested absurdly deep") from None


def answer_of_reply(reply: Reply, choices: Sequence[Choice]) -> Answer:
    """The answer with these of the reply's choices."""
    return Answer(
        choices=list(choices),
        model=reply.root.get("model"),
        response_id=reply.root.get("id"),
        usage=reply.root.get("usage"),
        terminated=reply.terminated,
        error=reply.error,
        extra={key: value for key, value in reply.root.items() if key not in _MODELLED_ROOT},
    )


def said_in(choice: Mapping[str, Any]) -> Message:
    """A choice's message in canonical form. Raises Unparseable when it cannot be read."""
    message = choice["message"]
    try:
        return canonical_message({**message, "role": message.get("role") or "assistant"})
    except ValueError as error:
        raise Unparseable(f"the answer's message cannot be read: {error}") from None


def _read(body: bytes, content_type: str, whole: bool) -> Reply:
    # Gateways answer a call for a stream with an object under the stream's label.
    if looks_like_events(content_type, body) and not body.lstrip().startswith(b"{"):
        reply = _streamed(body, whole)
        return reply if not has_halves(body) else _with_whole_characters(reply)
    try:
        value = loads_whole(body)
    except orjson.JSONDecodeError as error:
        return Reply(root=partial_body(body, whole, error))
    return _plain(value)


def _with_whole_characters(reply: Reply) -> Reply:
    root, choices, error = (whole_characters(value) for value in (reply.root, reply.choices, reply.error))
    return Reply(root, choices, reply.terminated, error)


def _plain(value: object) -> Reply:
    if not isinstance(value, dict):
        raise Unparseable("the response is no JSON object")
    if error := _error(value):
        return Reply(root=without(value, "error", "choices"), error=error, terminated=True)
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Unparseable("the response has no choices")
    return Reply(root=without(value, "choices"), choices=_by_index(choices), terminated=True)


def _error(value: Mapping[str, Any]) -> Any:
    """The error in an answer that came with status 200: under its name, or as older vLLM has it, as the whole object."""
    return value.get("error") or (dict(value) if value.get("object") == "error" else None)


def _by_index(choices: list[Any]) -> dict[int, dict[str, Any]]:
    indices = [_index(choice, place) for place, choice in enumerate(choices)]
    if len(set(indices)) < len(indices):  # servers that number all of them 0 must not cost all but the last
        indices = list(range(len(choices)))
    return {index: _checked(choice, index) for index, choice in zip(indices, choices, strict=True)}


def _streamed(body: bytes, whole: bool) -> Reply:
    reply = Reply()
    choices: dict[int, StreamedChoice] = {}
    for event in parse_events(body):
        data = event.data.strip()
        if data == b"[DONE]":
            reply.terminated = True
            break
        try:
            chunk = _chunk(event, whole) if data else {}
            if chunk is None:
                break
            _add_chunk(reply, choices, chunk)
        except Unparseable:
            if whole:
                raise
            break  # what came before stands
    reply.choices = {index: choice.whole() for index, choice in choices.items()}
    finished = [choice.get("finish_reason") for choice in reply.choices.values()]
    reply.terminated = reply.terminated or bool(finished and all(finished))
    if whole and not choices and reply.error is None and (reply.terminated or not reply.root):
        raise Unparseable("the event stream holds no choice")
    return reply


def _chunk(event: Event, whole: bool) -> dict[str, Any] | None:
    try:
        chunk = loads(event.data)
    except orjson.JSONDecodeError as error:
        return partial_event(event, whole, error)
    if event.type == b"error" and not (isinstance(chunk, dict) and chunk.get("error")):
        return {"error": chunk or "an error event without a word"}
    if not isinstance(chunk, dict):
        raise Unparseable("an event of the stream is no JSON object")
    return chunk


def _add_chunk(reply: Reply, choices: dict[int, StreamedChoice], chunk: dict[str, Any]) -> None:
    reply.error = _error(chunk) or reply.error
    root = reply.root
    for key, value in chunk.items():
        # The first id, model and prompt ids that say something stand (Azure's first chunk has an empty model); usage is
        # cumulative, so its last value does.
        if value is None or key in _OWN:
            continue
        known = root.get(key)
        if key == "sglext" and isinstance(value, Mapping) and isinstance(known, Mapping):
            root[key] = {**known, **value}  # details in one chunk, framed ids in another
        elif not known or key == "usage":
            root[key] = value
    for place, piece in enumerate(listed("choices", chunk.get("choices") or [])):
        index = _index(piece, place)
        if index not in choices:
            choices[index] = StreamedChoice(index)
        choices[index].add(piece)


def _index(choice: object, place: int) -> int:
    if not isinstance(choice, dict):
        raise Unparseable("a choice is no object")
    index = choice.get("index")
    return index if type(index) is int else place


def _checked(choice: dict[str, Any], index: int) -> dict[str, Any]:
    """A choice whose index and message are there: a filtered one comes without a message."""
    return {**choice, "index": index, "message": message_of(choice.get("message") or {})}
