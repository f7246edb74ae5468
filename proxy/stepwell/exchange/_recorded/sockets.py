"""A recorded WebSocket of a model's API: one exchange per turn, as the proxy records them.

A turn begins with the client's `response.create` and ends with the server's terminal event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from stepwell.exchange._clean import clean_url
from stepwell.exchange._dialects import dialect_for
from stepwell.exchange._raw import End, Request, Response
from stepwell.exchange._recorded.found import Found, found, path_of

_CREATE = b'"response.create"'
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled", "error"})
_MARKS = tuple(f'"{name}"'.encode() for name in _TERMINAL)
_HEADERS = [("content-type", "application/x-ndjson")]
_LINES = bytes.maketrans(b"\r\n", b"  ")
"""Raw line ends inside a JSON text are white space."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One text message of a socket; its time in ns since the epoch, 0 where it is not known."""

    from_client: bool
    data: bytes
    at_ns: int = 0


@dataclass(slots=True)
class _Turn:
    request: Request
    lines: list[bytes] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0

    def found(self, end: End = "complete", error: str | None = None) -> Found:
        body = b"".join(line + b"\n" for line in self.lines)
        answer = Response(101, list(_HEADERS), body, end, self.last_ns, self.first_ns or None, error)
        return found(self.request, answer)


def found_in_socket(
    upgrade: Request,
    frames: Iterable[Frame],
    end: End = "aborted",
    error: str | None = "the recording ended before the answer did",
) -> Iterator[Found]:
    """The turns of a socket that `upgrade` asked for; one exchange that is no generation when it is no such socket, or without turns.

    `end` and `error` say what became of a turn that the socket's end cut short.
    """
    request = replace(upgrade, method="WEBSOCKET", body=b"")
    if dialect_for("WEBSOCKET", path_of(replace(upgrade, url=clean_url(upgrade.url)))) is None:
        frames = ()
    turn, turns = None, 0
    for frame in frames:
        if frame.from_client and _type_of(frame.data, (_CREATE,)) == "response.create":
            if turn is not None:
                yield turn.found("aborted", "the next turn began before the answer ended")
            turn, turns = _Turn(replace(request, body=frame.data, at_ns=frame.at_ns or upgrade.at_ns)), turns + 1
        elif turn is not None and not frame.from_client:
            _answer(turn, frame)
            if _type_of(frame.data, _MARKS) in _TERMINAL:
                yield turn.found()
                turn = None
    if turn is not None:
        yield turn.found(end, error)
    if not turns:
        yield found(replace(request, method="GET"), Response(101, [], b"", "complete", upgrade.at_ns))


def _answer(turn: _Turn, frame: Frame) -> None:
    turn.lines.append(frame.data.translate(_LINES))
    turn.first_ns, turn.last_ns = turn.first_ns or frame.at_ns, frame.at_ns


def _type_of(data: bytes, marks: tuple[bytes, ...]) -> Any:
    """The event's type, looked at only where one of the `marks` is somewhere in it."""
    if not any(mark in data for mark in marks):
        return None
    try:
        event = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    kind = event.get("type") if isinstance(event, dict) else None
    return kind if isinstance(kind, str) else None
