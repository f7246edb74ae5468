"""What a turn is on the WebSocket of a model's API: for each frame, what begins, goes on and ends with it.

A turn begins with the client's `response.create` and ends with the server's terminal event, with the beginning of the next answer, or
with the socket. Turns of one lane (`stream_id`; most sockets have one without a name) are answered in their order, so one that is asked
for early waits its turn. A client may also steer: its `response.steer` is then the request of an answer that nobody created, or a part
of the next request.

Capture and import both go by this. Nothing is parsed while frames pass: what a frame is stands in its `type`, which is looked for near
its ends.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepwell.exchange._raw import End
from stepwell.exchange._steering import Steers, continued

MAX_TURNS = 64
"""Turns in flight on one socket whose answers are kept apart."""

_ASKS = frozenset({"response.create", "response.append"})
"""`append`: as older clients went on with a response."""
_STEER, _ACCEPTED, _FAILED = "response.steer", "response.steer.accepted", "response.steer.failed"
_CREATED = "response.created"
_TERMINAL = frozenset({
    "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done", "error",
})  # fmt: skip

_WINDOW = 512
"""Bytes at either end of a frame that are looked into."""
_FIRST = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z_.]{1,64})"')
_TYPE = re.compile(rb'"type"\s*:\s*"([a-z_.]{1,64})"')
"""Inside a string of JSON the quotes would be escaped, so it is a key that is found, though maybe an inner object's."""
_LANE = re.compile(rb'"stream_id"\s*:\s*"((?:[^"\\]|\\.){0,256})"')
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")
"""A raw line end in JSON is white space."""


class Began(NamedTuple):
    """A turn, by its number on the socket (from 1), with its request: the client's frame; one a line, where it was steered."""

    turn: int
    body: bytes


class Said(NamedTuple):
    """A frame of its answer, as one line without its end."""

    turn: int
    line: bytes


class Ended(NamedTuple):
    """How a turn ended, and why, where it was cut."""

    turn: int
    end: End = "complete"
    error: str | None = None


Move = Began | Said | Ended


@dataclass(slots=True, eq=False)
class _Turn:
    number: int
    previous: bytes
    """The response that it says it continues."""
    created: bool = False


class Turns:
    """The turns of one socket."""

    def __init__(self) -> None:
        self._count = 0
        self._named = False  # whether a lane has a name, so that those of the server's frames must be looked for
        self._lanes: dict[bytes, deque[_Turn]] = {}  # in flight; no lane is empty
        self._steers = Steers()
        self._crowded = False

    def asked(self, frame: bytes) -> Sequence[Move]:
        """What a text frame from the client does."""
        kind = kind_of(frame)
        if kind == _STEER:
            self._steers.add(frame)
        if kind not in _ASKS:
            return ()
        found = _LANE.search(frame)
        self._named = self._named or found is not None
        previous = continued(frame)
        # What was steered goes before what is asked now. All are kept as they came, for who reads them to put together.
        steers = self._steers.with_request(previous, alone=not self._lanes)
        turn = self._new(previous)
        if not self._crowded:
            self._lanes.setdefault(found[1] if found else b"", deque()).append(turn)
        return self._began(turn, [*steers, frame])

    def answered(self, frame: bytes) -> Sequence[Move]:
        """What a text frame from the server does."""
        kind = kind_of(frame)
        if kind == _ACCEPTED:
            self._steers.accepted(frame)
        elif kind == _FAILED:
            self._steers.failed(frame)
        previous = continued(frame) if kind == _CREATED else b""
        lane = self._lane_of(frame, kind, previous)
        moves = self._next(lane, previous) if kind == _CREATED else []
        turns = self._lanes.get(lane)
        if turns is not None:
            moves.append(Said(turns[0].number, one_line(frame)))
            if kind in _TERMINAL:
                moves.append(self._ended(lane))
        return moves

    def closed(self) -> list[int]:
        """The socket has ended: the numbers of the turns that this cuts short."""
        cut = sorted(turn.number for turns in self._lanes.values() for turn in turns)
        self._lanes.clear()
        return cut

    def _lane_of(self, frame: bytes, kind: str, previous: bytes) -> bytes:
        """The lane of a frame from the server. One without a name, or of no turn, is the only turn's, if that can still begin with it."""
        found = _LANE.search(frame) if self._named else None
        lane = found[1] if found else b""
        if lane not in self._lanes and len(self._lanes) == 1 and not self._crowded and not self._steers.waits(previous):
            only, turns = next(iter(self._lanes.items()))
            if kind != _CREATED or not turns[0].created:
                return only
        return lane

    def _next(self, lane: bytes, previous: bytes) -> list[Move]:
        """An answer begins: that of the lane's turn, of the one after it, or of what was steered."""
        moves: list[Move] = []
        turns = self._lanes.get(lane)
        if turns is not None and turns[0].created:
            moves.append(self._ended(lane, "client_disconnect", "the next answer began before this one had ended"))
            turns = self._lanes.get(lane)
        if turns is None or (turns[0].previous != previous and self._steers.waits(previous)):
            steers = self._steers.for_successor(previous, alone=not self._lanes)
            if steers:
                turn = self._new(previous)
                moves.extend(self._began(turn, steers))
                if self._crowded:
                    return moves
                turns = self._lanes.setdefault(lane, deque())
                turns.appendleft(turn)
        if turns is not None:
            turns[0].created = True
        self._steers.settle()
        return moves

    def _new(self, previous: bytes) -> _Turn:
        self._crowded = self._crowded or sum(map(len, self._lanes.values())) >= MAX_TURNS
        self._count += 1
        return _Turn(self._count, previous)

    def _began(self, turn: _Turn, frames: list[bytes]) -> list[Move]:
        body = frames[0] if len(frames) == 1 else b"\n".join(map(one_line, frames))
        if not self._crowded:
            return [Began(turn.number, body)]
        # From now on whose an answer is cannot be told for certain, so that later turns get none at all.
        reason = (
            f"there were more than {MAX_TURNS} turns in flight on the socket, so their answers could not be told apart"
        )
        return [Began(turn.number, body), Ended(turn.number, "aborted", reason)]

    def _ended(self, lane: bytes, end: End = "complete", error: str | None = None) -> Ended:
        turns = self._lanes[lane]
        turn = turns.popleft()
        if not turns:
            del self._lanes[lane]
        self._steers.settle()
        return Ended(turn.number, end, error)


def kind_of(frame: bytes) -> str:
    """The `type` of an event, or the empty string. Where it does not come first, inner objects' types are told from it by their names."""
    if first := _FIRST.match(frame):
        return first[1].decode()
    found: list[bytes] = _TYPE.findall(frame[:_WINDOW]) + _TYPE.findall(frame[max(_WINDOW, len(frame) - _WINDOW) :])
    named = [name for name in found if name.startswith(b"response.")]
    return (named or found or [b""])[0].decode()


def one_line(frame: bytes) -> bytes:
    """A frame's JSON without line ends."""
    return frame.translate(_LINE_ENDS) if b"\n" in frame or b"\r" in frame else frame
