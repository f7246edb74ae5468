"""mitmproxy's HTTP layer, with some things added.

It remembers which side ended a call early: the `error` hook only brings a text, and for HTTP/2 the same text for both sides. Whether
the agent hung up or the provider failed decides if a cut answer was the agent's choice, so it is noted where it is known: in the type
of the protocol error.

It tells requests made to this server from requests made by way of this proxy, which mitmproxy treats alike.

It decides call by call whether to go through another proxy, and which; mitmproxy has one for all or none.
"""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import http
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.layers.http import GetHttpConnection, HttpLayer, HTTPMode, HttpStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    RequestHeaders,
    RequestProtocolError,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._upstream_proxy import HttpUpstreamProxy

from stepwell.proxy._base import ORIGIN
from stepwell.proxy._ended import EVERY, forget_ended
from stepwell.proxy._frames import LinearWebsocketLayer
from stepwell.proxy._upstream import UpstreamProxy, is_plain

FAILED = "stepwell.failed"
"""Key in `flow.metadata`: `client` or `upstream`."""

Via = Callable[[http.HTTPFlow], UpstreamProxy | None]
"""Through which proxy a request goes to its host and port; None: directly."""


class MarkingStream(HttpStream):
    """One request and its response."""

    via: Via | None = None

    def state_wait_for_request_headers(self, event: RequestHeaders) -> layer.CommandGenerator[None]:
        data = event.request.data
        if self.mode is HTTPMode.regular and not data.host and data.method != b"CONNECT":
            data.host, data.port = ORIGIN, 443  # mitmproxy would take what the Host header says for the destination
            data.scheme = b"https" if self.context.client.tls else b"http"
        yield from super().state_wait_for_request_headers(event)

    def make_server_connection(self) -> layer.CommandGenerator[bool]:
        if self.via is not None:  # now, when routes have said where the request goes
            found = self.via(self.flow)
            self.flow.server_conn.via = found.way(self.flow.request) if found else None
        return (yield from super().make_server_connection())

    def handle_connect_regular(self) -> layer.CommandGenerator[None]:
        found = self.via(self.flow) if self.via else None
        if found is None or self.flow.response:
            yield from super().handle_connect_regular()
        else:  # as mitmproxy does in its `upstream` mode
            self.context.server.via = found.tunnel
            self.child_layer = HttpUpstreamProxy.make(self.context, True)[0]
            yield from self.handle_connect_finish()

    def state_wait_for_response_headers(self, event: ResponseHeaders) -> layer.CommandGenerator[None]:
        answer = event.response
        if answer.status_code == 407 and is_plain(self.flow.server_conn.via):
            # The other proxy wants credentials of us. The agent would take it for our own refusal, and send it ours.
            answer.status_code, answer.reason = 502, "Bad Gateway"
            answer.headers.pop("proxy-authenticate", None)
        yield from super().state_wait_for_response_headers(event)

    def flow_done(self) -> layer.CommandGenerator[None]:
        if self.flow.websocket is None:
            yield from super().flow_done()
            return
        self.child_layer = LinearWebsocketLayer(self.context, self.flow)
        self._handle_event = self.passthrough
        yield from self.child_layer.handle_event(events.Start())
        yield SendHttp(ResponseEndOfMessage(self.stream_id), self.context.client)

    def handle_protocol_error(
        self, event: RequestProtocolError | ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        self.flow.metadata.setdefault(FAILED, "client" if isinstance(event, RequestProtocolError) else "upstream")
        yield from super().handle_protocol_error(event)


class MarkingLayer(HttpLayer):
    """The streams of one client connection."""

    via: Via | None = None
    _swept = 0
    """The newest stream at the last sweep."""

    def make_stream(self, stream_id: int) -> layer.CommandGenerator[None]:
        if stream_id >= self._swept + 2 * EVERY:  # a client's ids are odd
            forget_ended(self, self._swept)
            self._swept = stream_id
        stream = self.streams[stream_id] = MarkingStream(self.context.fork(), stream_id)
        stream.via = self.via
        yield from self.event_to_child(stream, events.Start())

    def get_connection(self, event: GetHttpConnection, *, reuse: bool = True) -> layer.CommandGenerator[None]:
        mode = self.mode
        if is_plain(event.via):
            self.mode = HTTPMode.upstream  # in which mitmproxy asks for no tunnel when the request is plain HTTP
        try:
            yield from super().get_connection(event, reuse=reuse)
        finally:
            self.mode = mode


def mark_failures(next_layer: layer.NextLayer, via: Via | None = None) -> None:
    """Use a `MarkingLayer` where mitmproxy decided on an HTTP layer (at the bottom of what it decided on)."""
    found = next_layer.layer
    if type(found) is HttpLayer:
        layers = next_layer.context.layers
        layers.remove(found)  # a layer enters itself when it is made
        next_layer.layer = own = MarkingLayer(next_layer.context, found.mode)
        own.via = via
