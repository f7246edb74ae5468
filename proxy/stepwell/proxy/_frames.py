"""mitmproxy's WebSocket layer, in linear time.

A message is put together from the pieces it arrived in, and mitmproxy adds `bytes` to `bytes`: a message of 32 MB would hold up every
call of the proxy for seconds.
"""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

from typing import Any

from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.websocket import WebsocketLayer


class _Pieces(list[Any]):
    """Frames that can be added to in place."""

    def append(self, frame: bytes) -> None:
        super().append(bytearray(frame))


class LinearWebsocketLayer(WebsocketLayer):
    """Relays messages."""

    def relay_messages(self, event: events.Event) -> layer.CommandGenerator[None]:
        for end in (self.client_ws, self.server_ws):
            if type(end.frame_buf) is list:  # mitmproxy begins a new one with each message
                end.frame_buf = _Pieces(map(bytearray, end.frame_buf))
        yield from super().relay_messages(event)
