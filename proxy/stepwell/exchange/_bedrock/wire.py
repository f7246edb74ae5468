"""What both of Bedrock's APIs share: their paths and the model in them, the request's id, how an answer is read, frames, errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import unquote

import orjson

from stepwell.exchange._body import is_whole, json_object, loosely, partial_body
from stepwell.exchange._dialect import Unparseable, WithoutFlags
from stepwell.exchange._eventstream import Frame, looks_like_frames, read_frames
from stepwell.exchange._generation import Answer
from stepwell.exchange._raw import Response, header

_PATH = re.compile(r"[^?#]*")
_ERROR_WORDS = frozenset({"message", "Message", "__type", "code", "originalMessage", "originalStatusCode"})


@dataclass(slots=True)
class Events:
    """The events of a stream, each with its kind, up to where it ended, and the exception that ended it."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    error: Any = None


class BedrockAPI(WithoutFlags):
    """An API of Bedrock, by its operations: `POST …/model/<id>/<operation>`."""

    operations: ClassVar[frozenset[str]]

    def matches(self, method: str, path: str) -> bool:
        """Whether it is one of them; the id may be an ARN whose slashes nobody encoded."""
        if method != "POST":
            return False
        model, operation = _split(path)
        return bool(model) and operation in self.operations


def model_of(url: str) -> str | None:
    """The model's id or ARN in a URL, percent-decoded."""
    path = _PATH.match(url)
    return unquote(_split(path[0])[0]) or None if path else None


def _split(path: str) -> tuple[str, str]:
    start, _, operation = path.rpartition("/")
    return start.partition("/model/")[2], operation


def request_id(response: Response) -> str | None:
    """The id that AWS gave the call, where its header was kept: the bodies have none."""
    return header(response.headers, "x-amzn-requestid") or None


def read_answer(
    response: Response, plain: Callable[[Any], Answer], streamed: Callable[[bytes, bool], Answer]
) -> Answer:
    """The answer in a decoded response. What ended early gives what there was.

    `plain` reads a JSON value, `streamed` a framed body, with whether all of it came.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    whole, body = is_whole(response), response.body
    if response.status is None or (not body and not whole):
        return Answer()
    if response.status >= 400:
        return Answer(error=loosely(body), terminated=whole)
    if looks_like_frames(header(response.headers, "content-type"), body):
        return streamed(body, whole)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Answer(extra=partial_body(body, whole, error))
    return plain(value)


def read_events(body: bytes, whole: bool) -> Events:
    """The events of a framed body. What ended early gives what there was, up to the first event that cannot be read.

    Raises:
        Unparseable: it ended as it should (`whole`), and is damaged, holds nothing, or an event that is none.
    """
    found = read_frames(body)
    if found.problem and whole:
        raise Unparseable(f"the event stream is damaged: {found.problem}")
    if whole and not found.frames:
        raise Unparseable("the event stream holds no event")
    events = Events()
    for frame in found.frames:
        kind = frame.text(":event-type") or frame.text(":exception-type")
        if frame.text(":message-type") in ("exception", "error") or kind.endswith("Exception"):
            events.error = _exception(frame, kind)
            break
        if kind == "initial-response":
            continue
        try:
            events.events.append((kind, json_object(frame.payload or b"{}", f"the event {kind!r}")))
        except Unparseable:
            if whole:
                raise
            break  # what came before stands
    return events


def _exception(frame: Frame, kind: str) -> dict[str, Any]:
    """A modelled exception has a JSON payload; an unmodelled error says it in its headers."""
    try:
        said = orjson.loads(frame.payload) if frame.payload else {}
    except orjson.JSONDecodeError:
        said = frame.payload.decode(errors="replace")
    fields = said if isinstance(said, dict) else {"message": said}
    named = {"type": kind or frame.text(":error-code"), "message": frame.text(":error-message")}
    return {**{key: value for key, value in named.items() if value}, **fields}


def error_in(value: Mapping[str, Any]) -> Any:
    """The error that came with status 200: an AWS gateway's, which has nothing but a message and its type, or a named one."""
    named = value.get("error")
    if named and value.keys() <= {"error", *_ERROR_WORDS}:
        return named
    return dict(value) if value and value.keys() <= _ERROR_WORDS else None
