"""mitmproxy's HTTP layer, with one thing added: it remembers which side ended a call early.

The `error` hook only brings a text, and for HTTP/2 the same text for both sides. Whether the agent hung up or the provider failed
decides if a cut answer was the agent's choice, so it is noted where it is known: in the type of the protocol error.
"""

from __future__ import annotations

from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.http import HttpLayer, HttpStream
from mitmproxy.proxy.layers.http._events import RequestProtocolError, ResponseProtocolError

FAILED = "stepwell.failed"
"""Key in `flow.metadata`: `client` or `upstream`."""


class MarkingStream(HttpStream):
    """One request and its response."""

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        self.flow.metadata.setdefault(FAILED, "client" if isinstance(event, RequestProtocolError) else "upstream")
        yield from super().handle_protocol_error(event)


class MarkingLayer(HttpLayer):
    """The streams of one client connection."""

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        stream = self.streams[stream_id] = MarkingStream(self.context.fork(), stream_id)
        yield from self.event_to_child(stream, events.Start())


def mark_failures(next_layer: layer.NextLayer) -> None:
    """Use a `MarkingLayer` where mitmproxy decided on an HTTP layer (at the bottom of what it decided on)."""
    found = next_layer.layer
    if type(found) is HttpLayer:
        layers = next_layer.context.layers
        layers.remove(found)  # a layer enters itself when it is made
        next_layer.layer = MarkingLayer(next_layer.context, found.mode)
