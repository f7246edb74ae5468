"""Messages are put together without copying what is there already."""

from __future__ import annotations

import pytest
import wsproto
import wsproto.events as ws
from mitmproxy import http, options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.test import tflow
from wsproto.connection import Connection

from stepwell.proxy._frames import LinearWebsocketLayer


class Relay:
    """The layer with a client before it, and what it sends to the server."""

    def __init__(self) -> None:
        self.flow: http.HTTPFlow = tflow.twebsocketflow()
        assert self.flow.websocket is not None
        self.flow.websocket.messages.clear()
        self.context = Context(self.flow.client_conn, options.Options())
        self.context.server = self.flow.server_conn
        self.layer = LinearWebsocketLayer(self.context, self.flow)
        self.client = Connection(wsproto.ConnectionType.CLIENT)
        self.server = Connection(wsproto.ConnectionType.SERVER)
        self._handle(events.Start())

    def _handle(self, event: events.Event) -> None:
        waiting = [event]
        while waiting:
            for command in self.layer.handle_event(waiting.pop(0)):
                if isinstance(command, commands.SendData) and command.connection is self.context.server:
                    self.server.receive_data(command.data)
                elif isinstance(command, commands.StartHook):
                    waiting.append(events.HookCompleted(command))

    def send(self, data: bytes, size: int) -> None:
        for start in range(0, len(data), size):
            self._handle(events.DataReceived(self.context.client, data[start : start + size]))


@pytest.mark.parametrize("size", [1, 7, 65536])
def test_messages_and_frames_arrive_as_they_were(size: int) -> None:
    relay = Relay()
    said = [("Grüße ", False), ("👋", False), ("!", True), ("next", True)]
    relay.send(
        b"".join(relay.client.send(ws.TextMessage(data=data, message_finished=last)) for data, last in said), size
    )
    heard = [event for event in relay.server.events() if isinstance(event, ws.TextMessage)]
    assert [(event.data, event.message_finished) for event in heard] == said
    assert relay.flow.websocket is not None
    assert [message.content for message in relay.flow.websocket.messages] == ["Grüße 👋!".encode(), b"next"]
    assert all(type(message.content) is bytes for message in relay.flow.websocket.messages)


def test_a_message_in_the_making_grows_in_place() -> None:
    relay = Relay()
    relay.send(relay.client.send(ws.TextMessage(data="x" * 100_000, message_finished=False)), 10_000)
    relay.send(relay.client.send(ws.TextMessage(data="y" * 100_000))[:50_000], 10_000)
    frames: list[object] = list(relay.layer.client_ws.frame_buf)
    assert len(frames) == 2 and all(isinstance(frame, bytearray) for frame in frames)
