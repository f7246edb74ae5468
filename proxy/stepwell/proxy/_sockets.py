"""LLM sockets: each turn on a WebSocket is a call of its own. What a turn is, `stepwell.exchange.Turns` says frame by frame."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from mitmproxy import connection, http

from stepwell.exchange import Began, Dialect, End, Ended, Request, Said, Turns
from stepwell.proxy._capture import Capture, header_pairs
from stepwell.proxy._config import Route
from stepwell.proxy._flows import Call, Flows

SOCKET = "stepwell.socket"
"""Key in `flow.metadata`: the `Socket`, which lives as long as the flow."""

_ANSWER = http.Response.make(101)
_ANSWER.headers = http.Headers([(b"content-type", b"application/x-ndjson")])
"""What a turn's answer is recorded as: the server's frames, one per line."""
_BY_CLIENT: End = "client_disconnect"
_BY_UPSTREAM: End = "upstream_error"
_OF_A_BODY = frozenset({"content-type", "content-encoding", "content-length"})


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
    turns: Turns = field(default_factory=Turns)
    calls: dict[int, Call] = field(default_factory=dict)
    """The turns in flight, by number."""


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
        turns = socket.turns
        for move in turns.asked(message.content) if message.from_client else turns.answered(message.content):
            match move:
                case Said(number, line):
                    self._answer(socket, number, line)
                case Began(number, body):
                    self._begin(socket, number, body)
                case Ended(number, end, error):
                    self._end(socket, number, end, error)

    def _answer(self, socket: Socket, number: int, line: bytes) -> None:
        tee = socket.calls[number].tee
        if tee is not None:
            tee(line + b"\n")

    def _begin(self, socket: Socket, number: int, body: bytes) -> None:
        call = Call(f"{socket.id}.{number}", socket.client, socket.url, socket.trajectory_id, socket.dialect)
        call.route, call.response = socket.route, _ANSWER
        socket.calls[number] = call
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
        for number in socket.turns.closed():
            self._end(socket, number, end, f"the {who} closed the socket")

    def _end(self, socket: Socket, number: int, end: End, error: str | None) -> None:
        call = socket.calls.pop(number)
        if self._flows.pop(call.id) is not None:  # else a shutdown has ended it, or the client's going
            self._capture.response(call, end, error)
