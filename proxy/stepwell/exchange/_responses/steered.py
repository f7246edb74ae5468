"""The request of a turn on a socket: one frame, or what was steered (`response.steer`) with the request that it went before.

Steering ends a response early and begins a successor, whose prompt is what the steered response saw and answered, with the steering
input after it, and whose settings are inherited. Input that still waits when the client asks for more goes before that request's own
(OpenAI's guide to steering). What nobody documents, or nobody recorded, makes the prompt incomplete, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from stepwell.exchange._body import json_object, request_object
from stepwell.exchange._dialect import NoStep, Unparseable
from stepwell.exchange._responses.reply import Reply
from stepwell.exchange._steering import MAX_STEERS

_STEER, _FAILED = "response.steer", "response.steer.failed"
_ASKS = (None, "response.create", "response.append")

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """The frames of a request: what was steered, in its order, and what was asked (None: only steered)."""

    steers: tuple[Fields, ...]
    create: Fields | None


def turn_of(body: bytes) -> Turn:
    """The frames that a turn's request is made of.

    Raises:
        NoStep: a frame asks for nothing.
        Unparseable: a frame is no JSON object.
    """
    frames = _frames(body)
    last = frames.pop() if frames[-1].get("type") != _STEER else None
    for frame, kinds in (*((frame, (_STEER,)) for frame in frames), *(((last, _ASKS),) if last is not None else ())):
        if frame.get("type") not in kinds:
            raise NoStep(f"a {frame.get('type')!s:.40} frame")
    return Turn(tuple(frames), None if last is None else _opened(last))


def _frames(body: bytes) -> list[Fields]:
    """One JSON text, which may have line ends, or several, one a line."""
    try:
        return [request_object(body)]
    except Unparseable:
        lines = [line for line in body.splitlines() if line.strip()]
        if len(lines) < 2:
            raise
        return [json_object(line, "a frame of the request") for line in lines]


def _opened(frame: Fields) -> Fields:
    """The request's fields, which a client's frame has at its root or under `response`."""
    inner = frame.get("response")
    if not isinstance(inner, dict):
        return frame
    return {**{key: value for key, value in frame.items() if key != "response"}, **inner}


def steered(turn: Turn, reply: Reply) -> tuple[Fields, str | None]:
    """A request that says what the frames of a steered turn come to, and what is not known of its prompt (None: nothing lacks).

    Raises:
        Unparseable: an input is neither text nor a list of items.
    """
    steers, other = _committed(turn, reply)
    if turn.create is not None and not steers:
        return turn.create, None
    body = dict(turn.create) if turn.create is not None else {"type": _STEER, **_inherited(reply.root)}
    inputs = [steer.get("input") for steer in steers]
    asked = body.get("input")
    if turn.create is None and len(inputs) == 1:
        body["input"] = inputs[0] if inputs[0] is not None else []
    else:
        body["input"] = [item for given in (*inputs, asked) for item in _items(given)]
    named = _id(body) or _id(reply.root)
    targets = [_id(steer) for steer in steers]
    if previous := named or next(filter(None, targets), None):
        body["previous_response_id"] = previous
    lacking = (
        _lacking_steers(turn, steers, other)
        or _lacking_link(turn, named, targets)
        or (_lacking_settings(reply.root) if turn.create is None else None)
    )
    return body, lacking


def _committed(turn: Turn, reply: Reply) -> tuple[list[Fields], bool]:
    """The steers without those that the server gave back, and whether it gave back another one of the same response.

    It does so before it answers a request, by what they steered and their input. A successor was created for what it did take.
    """
    if turn.create is None:
        return list(turn.steers), False
    gone = Counter(_said(steer) for steer in _given_back(reply.root.get("events")))
    kept: list[Fields] = []
    for steer in turn.steers:
        if gone[_said(steer)] > 0:
            gone[_said(steer)] -= 1
        else:
            kept.append(steer)
    targets = {_id(steer) for steer in kept}
    return kept, any(count and target in targets for (target, _), count in gone.items())


def _given_back(events: object) -> Iterator[Mapping[str, Any]]:
    for event in events if isinstance(events, list) else ():
        steer = event.get("steer") if isinstance(event, Mapping) and event.get("type") == _FAILED else None
        if isinstance(steer, Mapping):
            yield steer


def _said(steer: Mapping[str, Any]) -> tuple[str | None, bytes]:
    try:
        return _id(steer), orjson.dumps(steer.get("input"), option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise Unparseable(f"a steering input cannot be read: {error}") from None


def _items(given: object) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        raise Unparseable("the request's input is neither text nor a list of items")
    return given


def _id(fields: Mapping[str, Any]) -> str | None:
    id_ = fields.get("previous_response_id")
    return id_ if isinstance(id_, str) and id_ else None


def _inherited(root: Mapping[str, Any]) -> Fields:
    """What a successor's prompt has from the response before it, as its answer repeats it."""
    kinds = (("instructions", str), ("tools", list))
    return {name: root[name] for name, kind in kinds if isinstance(root.get(name), kind) and root[name]}


def _lacking_steers(turn: Turn, steers: list[Fields], other: bool) -> str | None:
    if len(turn.steers) >= MAX_STEERS:
        return f"of what was steered no more than {MAX_STEERS} frames are kept"
    if any(steer.get("input") is None for steer in steers):
        return "a steering input was too large to be kept"
    return "which of the steering inputs the server gave back is not recorded" if other else None


def _lacking_link(turn: Turn, named: str | None, targets: list[str | None]) -> str | None:
    known = {target for target in targets if target is not None}
    if named is None and not known:
        return "which response was steered is not recorded"
    if known - {named} and (named is not None or len(known) > 1):
        return "what was steered is another response than the one that is continued"
    if named is None and turn.create is not None and targets:
        return "neither the request nor its answer names the response that was steered"
    return None


def _lacking_settings(root: Mapping[str, Any]) -> str | None:
    # A whole response has tools, be they none; without, it tells nothing of instructions.
    if not isinstance(root.get("tools"), list):
        return "the settings that it inherited are not in its answer"
    if root.get("instructions") is not None and not isinstance(root["instructions"], str):
        return "the instructions that it inherited are not in its answer as text"
    return None
