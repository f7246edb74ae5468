"""LLM sockets: each turn on a WebSocket is a call of its own.

A turn begins with the client's `response.create` and ends with the server's terminal event, with the beginning of the next answer, or
with the socket. Turns of one lane (`stream_id`; most sockets have one without a name) are answered in their order, so one that is asked
for early waits its turn. A client may also steer: its `response.steer` is then the request of an answer that nobody created.

Nothing is parsed while frames pass: what a frame is stands in its `type`, which is looked for near its ends.
"""

from __future__ import annotations

import re
import time
from collections import deque
from dataclasses import dataclass, field

from mitmproxy import connection, http

from stepwell.exchange import Dialect, End, Request
from stepwell.proxy._capture import Capture, header_pairs
from stepwell.proxy._config import Route
from stepwell.proxy._flows import Call, Flows

SOCKET = "stepwell.socket"
"""Key in `flow.metadata`: the `Socket`, which lives as long as the flow."""

_ASKS = frozenset({"response.create", "response.append"})
"""`append`: as older clients went on with a response."""
_STEER = "response.steer"
_CREATED, _STEER_FAILED = "response.created", "response.steer.failed"
_MAX_STEERS = 16
"""Steering frames kept until an answer takes them up: a client that only steers must not fill the memory. A turn of several is
quarantined in any case."""
_TERMINAL = frozenset({
    "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done", "error",
})  # fmt: skip

_WINDOW = 512
"""Bytes at either end of a frame that are looked into."""
_FIRST = re.compile(rb'\s*\{\s*"type"\s*:\s*"([a-z_.]{1,64})"')
_TYPE = re.compile(rb'"type"\s*:\s*"([a-z_.]{1,64})"')
"""Inside a string of JSON the quotes would be escaped, so it is a key that is found, though maybe an inner object's."""

_LANE = re.compile(rb'"stream_id"\s*:\s*"((?:[^"\\]|\\.)*)"')

_ANSWER = http.Response.make(101)
_ANSWER.headers = http.Headers([(b"content-type", b"application/x-ndjson")])
"""What a turn's answer is recorded as: the server's frames, one per line."""
_BY_CLIENT: End = "client_disconnect"
_BY_UPSTREAM: End = "upstream_error"
_OF_A_BODY = frozenset({"content-type", "content-encoding", "content-length"})


@dataclass(slots=True, eq=False)
class Turn:
    """A request on a socket, and whether its answer has begun."""

    call: Call
    created: bool = False


@dataclass(slots=True, eq=False)
class Socket:
    """An open WebSocket whose turns are recorded."""

    id: str
    client: connection.Client
    url: str
    headers: list[tuple[str, str]]
    """Of the upgrade, for every turn; the header of a body would be taken for the frame's."""
    http_version: str
    trajectory_id: str | None
    dialect: Dialect
    route: Route | None
    count: int = 0
    named: bool = False
    """Whether a lane has a name, so that those of the server's frames must be looked for."""
    lanes: dict[bytes, deque[Turn]] = field(default_factory=dict)
    """The turns in flight, by lane; no lane is empty."""
    steers: list[bytes] = field(default_factory=list)
    """What the client said to steer, and no answer has taken up yet."""

    def lane_of(self, frame: bytes, kind: str) -> bytes:
        """The lane of a frame from the server. One without a name, or of no turn, is the only turn's, if that can still begin with it."""
        found = _LANE.search(frame) if self.named else None
        lane = found[1] if found else b""
        if lane not in self.lanes and len(self.lanes) == 1:
            only, turns = next(iter(self.lanes.items()))
            if kind != _CREATED or not turns[0].created:
                return only
        return lane


class Sockets:
    """Records the turns of sockets."""

    def __init__(self, flows: Flows, capture: Capture) -> None:
        self._flows = flows
        self._capture = capture

    def open(self, flow: http.HTTPFlow, upgrade: Call) -> None:
        """A socket that `upgrade` asked for stands. One without a dialect is relayed and not recorded."""
        if upgrade.socket is None:
            return
        request = flow.request
        pairs = [*header_pairs(request.headers), *upgrade.own]
        flow.metadata[SOCKET] = Socket(
            upgrade.id,
            upgrade.client,
            upgrade.url,
            [pair for pair in pairs if pair[0].lower() not in _OF_A_BODY],
            request.http_version,
            upgrade.trajectory_id,
            upgrade.socket,
            upgrade.route,
        )

    def message(self, flow: http.HTTPFlow) -> None:
        """A whole message passes. mitmproxy would keep every one until the socket closes, so it is taken out."""
        if flow.websocket is None:
            return
        message = flow.websocket.messages.pop()
        flow.websocket.messages.clear()
        socket: Socket | None = flow.metadata.get(SOCKET)
        if socket is None or not message.is_text:
            return
        if message.from_client:
            self._asked(socket, message.content)
        else:
            self._answered(socket, message.content)

    def _asked(self, socket: Socket, frame: bytes) -> None:
        kind = kind_of(frame)
        if kind == _STEER:
            socket.steers.append(frame)
            del socket.steers[:-_MAX_STEERS]
        elif kind in _ASKS:
            found = _LANE.search(frame)
            socket.named = socket.named or found is not None
            # What was steered goes before what is asked now. Both are kept as they came: two texts are not one request, and who
            # reads them must not take the second for all that the model saw.
            self._begin(socket, found[1] if found else b"", b"\n".join([*socket.steers, frame]))

    def _answered(self, socket: Socket, frame: bytes) -> None:
        kind = kind_of(frame)
        if kind == _STEER_FAILED and len(socket.steers) == 1:
            socket.steers.clear()
        lane = socket.lane_of(frame, kind)
        if kind == _CREATED:
            self._next(socket, lane)
        turns = socket.lanes.get(lane)
        if turns is None:
            return
        if turns[0].call.tee is not None:
            turns[0].call.tee(_line(frame))
        if kind in _TERMINAL:
            self._end(socket, lane, "complete")

    def _next(self, socket: Socket, lane: bytes) -> None:
        """An answer begins: that of the lane's turn, of the one after it, or of what was steered."""
        turns = socket.lanes.get(lane)
        if turns is not None and turns[0].created:
            self._end(socket, lane, "client_disconnect", "the next answer began before this one had ended")
            turns = socket.lanes.get(lane)
        if turns is None and socket.steers:
            self._begin(socket, lane, b"\n".join(socket.steers))
            turns = socket.lanes[lane]
        if turns is not None:
            turns[0].created = True

    def _begin(self, socket: Socket, lane: bytes, body: bytes) -> None:
        socket.steers.clear()
        socket.count += 1
        call = Call(f"{socket.id}.{socket.count}", socket.client, socket.url, socket.trajectory_id, socket.dialect)
        call.route, call.response = socket.route, _ANSWER
        socket.lanes.setdefault(lane, deque()).append(Turn(call))
        self._flows.add(call)
        self._capture.tee(call)
        asked = Request("WEBSOCKET", socket.url, socket.headers, body, time.time_ns(), socket.http_version)
        self._capture.record(call, asked)

    def close(self, flow: http.HTTPFlow) -> None:
        """The socket has ended, by whichever side."""
        socket: Socket | None = flow.metadata.pop(SOCKET, None)
        if socket is None:
            return
        by_client = flow.websocket is not None and flow.websocket.closed_by_client
        who, end = ("client", _BY_CLIENT) if by_client else ("upstream", _BY_UPSTREAM)
        while socket.lanes:
            self._end(socket, next(iter(socket.lanes)), end, f"the {who} closed the socket")

    def _end(self, socket: Socket, lane: bytes, end: End, error: str | None = None) -> None:
        turns = socket.lanes[lane]
        call = turns.popleft().call
        if not turns:
            del socket.lanes[lane]
        if self._flows.pop(call.id) is not None:  # else a shutdown has ended it, or the client's going
            self._capture.response(call, end, error)


def kind_of(frame: bytes) -> str:
    """The `type` of an event, or the empty string. Where it does not come first, inner objects' types are told from it by their names."""
    if first := _FIRST.match(frame):
        return first[1].decode()
    found: list[bytes] = _TYPE.findall(frame[:_WINDOW]) + _TYPE.findall(frame[max(_WINDOW, len(frame) - _WINDOW) :])
    named = [name for name in found if name.startswith(b"response.")]
    return (named or found or [b""])[0].decode()


def _line(frame: bytes) -> bytes:
    """A frame as one line: a raw line end in JSON is white space."""
    if b"\n" in frame or b"\r" in frame:
        frame = frame.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame + b"\n"
