"""What both of Bedrock's APIs share on the wire: the model in the path, the request's id, events in binary frames, errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._eventstream import Frame, read_frames
from stepwell.exchange._raw import Response, header

_PATH = re.compile(r"[^?#]*")
_ERROR_WORDS = frozenset({"message", "Message", "__type", "code", "originalMessage", "originalStatusCode"})


@dataclass(slots=True)
class Events:
    """The events of a stream, each with its kind, up to where it ended, and the exception that ended it."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    error: Any = None


def is_operation(path: str, operations: tuple[str, ...]) -> bool:
    """Whether a path is `…/model/<id>/<operation>`; the id may be an ARN whose slashes nobody encoded."""
    model, operation = _split(path)
    return bool(model) and operation in operations


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


def read_events(body: bytes, whole: bool) -> Events:
    """The events of a framed body. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should (`whole`), and is damaged or holds nothing.
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
        if kind != "initial-response":
            events.events.append((kind, _object(frame.payload, f"the event {kind!r}")))
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


def _object(raw: bytes, what: str) -> dict[str, Any]:
    try:
        value = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise Unparseable(f"{what} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unparseable(f"{what} is no JSON object")
    return value


def error_in(value: Mapping[str, Any]) -> Any:
    """The error that came with status 200: an AWS gateway's, which has nothing but a message and its type, or a named one."""
    named = value.get("error")
    if named and value.keys() <= {"error", *_ERROR_WORDS}:
        return named
    return dict(value) if value and value.keys() <= _ERROR_WORDS else None
