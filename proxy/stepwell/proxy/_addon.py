"""The one mitmproxy addon: which part of the proxy acts in which hook.

One addon and not one per part, since each addon costs every hook of every call. A flow is taken in at `requestheaders` (refused,
the proxy's own, or on its way as a `Call`) and ends in `response` or `error`, whichever comes: over HTTP/2 a client that has read
its whole answer may reset the stream, so which of the two it was says nothing about the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from mitmproxy import connection, http
from mitmproxy.proxy import layer

from stepwell.exchange import End
from stepwell.proxy._auth import Gate, refusal
from stepwell.proxy._base import BaseUrls, Entered
from stepwell.proxy._capture import Capture
from stepwell.proxy._config import CONTROL_HOST
from stepwell.proxy._control import Control
from stepwell.proxy._flows import Call, Flows
from stepwell.proxy._hosts import HostTest
from stepwell.proxy._intake import Intake
from stepwell.proxy._layers import FAILED, mark_failures
from stepwell.proxy._loops import Loops
from stepwell.proxy._passthrough import Passthrough
from stepwell.proxy._route import Router
from stepwell.proxy._seen import Seen
from stepwell.proxy._sockets import Sockets
from stepwell.proxy._upstream import UpstreamProxy, http_connect_upstream
from stepwell.proxy._upstreams import Upstreams

_OWN = (
    "This host is the Stepwell proxy's own: it takes plain requests with credentials, on the port for `stepwell run`.\n"
)
_LOOP = (
    "The request would come back to the Stepwell proxy itself. Check the address, and the upstreams of your routes.\n"
)
_CLOSING = "The Stepwell proxy is shutting down.\n"
_NO_SOCKET = "This route asks its engine for token ids, which a WebSocket has no place for: use HTTP.\n"
"""Clients fall back at once on 426, and only after many tries where an engine that knows no sockets says 403 or 404."""
_GRACE = 2.0
"""Seconds after a client has gone in which mitmproxy ends its calls by itself."""


class StepwellAddon:
    """Capture, in mitmproxy's hooks."""

    def __init__(
        self,
        *,
        watched: HostTest,
        gate: Gate,
        loops: Loops,
        router: Router,
        base: BaseUrls,
        flows: Flows,
        capture: Capture,
        control: Control,
        seen: Seen,
        upstreams: Upstreams,
    ) -> None:
        self._gate = gate
        self._loops = loops
        self._base = base
        self._intake = Intake(watched, gate, router)
        self._flows = flows
        self._capture = capture
        self._control = control
        self._seen = seen
        self._upstreams = upstreams
        self._passthrough = Passthrough(watched, seen)
        self._sockets = Sockets(flows, capture)
        self.tls_clienthello = self._passthrough.tls_clienthello
        self.tls_failed_client = seen.tls_failed_client
        self.websocket_message = self._sockets.message
        self.websocket_end = self._sockets.close
        self.server_connected = loops.server_connected
        self.server_disconnected = loops.server_disconnected
        self.http_connect_upstream = http_connect_upstream
        self.closing = False

    def next_layer(self, next_layer: layer.NextLayer) -> None:
        """Runs after mitmproxy's own `NextLayer` has decided."""
        self._passthrough.next_layer(next_layer)
        mark_failures(next_layer, self._through)

    def _through(self, flow: http.HTTPFlow) -> UpstreamProxy | None:
        """The proxy that the trajectory of a call goes through; a base URL names one for the call, credentials for the connection."""
        call = self._flows.get(flow.id)
        trajectory = call.trajectory_id if call else self._gate.trajectory(flow.client_conn)
        return self._upstreams.through(trajectory, flow.request.host, flow.request.port)

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """A tunnel is asked for."""
        if self._gate.admit(flow):
            self._refuse_loop(flow)
            if flow.request.host == CONTROL_HOST:
                flow.response = refusal(403, _OWN)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request begins: `flow.response`, when set, is given instead of an answer from upstream."""
        if not self._gate.admit(flow):
            return
        request, client = flow.request, flow.client_conn
        if request.host == CONTROL_HOST:
            if not self._gate.wants_credentials(client):
                flow.response = refusal(403, _OWN)
            return
        if self.closing:
            flow.response = refusal(503, _CLOSING)
            return
        entered = self._enter(flow)
        if flow.response is not None or request.host == CONTROL_HOST:
            return
        call = self._intake.take_in(flow, entered)
        if self._refuse_loop(flow):
            return
        if call.socket is not None and call.route is not None and call.route.engine is not None:
            flow.response = refusal(426, _NO_SOCKET)
            return
        self._flows.add(call)
        if call.dialect is None:
            request.stream = True

    def _enter(self, flow: http.HTTPFlow) -> Entered | None:
        """A request to the proxy itself: one by a base URL goes on to the provider, any other would come back here."""
        if self._loops.comes_from_us(flow.client_conn):
            flow.response = refusal(508, _LOOP)
            return None
        entered = self._base.enter(flow, asks_for_us=self._loops.asks_for_us(flow.request))
        if entered is None and flow.response is None:
            self._refuse_loop(flow)
        return entered

    def _refuse_loop(self, flow: http.HTTPFlow) -> bool:
        if not (self._loops.asks_for_us(flow.request) or self._loops.comes_from_us(flow.client_conn)):
            return False
        flow.response = refusal(508, _LOOP)
        return True

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """A request was read whole; it is forwarded when this returns."""
        if flow.request.host == CONTROL_HOST and flow.response is None:
            return self._control.answer(flow)
        call = self._flows.get(flow.id)
        if call is None or call.dialect is None:
            return None
        added = self._intake.steer(flow.request, call, call.dialect)
        if call.routes and self._refuse_loop(flow):
            self._flows.pop(call.id)
        else:
            self._capture.request(call, flow.request, added)
        return None

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """An answer begins. It is streamed whatever its content type says, or mitmproxy would hold it back to its end."""
        call, response = self._flows.get(flow.id), flow.response
        if call is not None and response is not None and response.status_code != 101:
            call.response = response
            response.stream = self._capture.tee(call) if call.dialect else True

    def response(self, flow: http.HTTPFlow) -> None:
        """An answer has passed to its last byte, or a socket stands."""
        call = self._flows.get(flow.id)
        if call is not None and flow.websocket is not None:
            self._sockets.open(flow, call)
        self._end(flow, "complete")

    def error(self, flow: http.HTTPFlow) -> None:
        """A call was cut, by the client or by the upstream, with or without an answer."""
        text = flow.error.msg if flow.error else ""
        failed = flow.metadata.get(FAILED) or ("upstream" if "from server" in text else "client")
        self._end(flow, "client_disconnect" if failed == "client" else "upstream_error", text)

    def _end(self, flow: http.HTTPFlow, end: End, error: str | None = None) -> None:
        call = self._flows.pop(flow.id)
        if call is not None:
            self._capture.response(call, end, error)

    def client_connected(self, client: connection.Client) -> None:
        self._seen.client_came(client.sockname[1])

    def client_disconnected(self, client: connection.Client) -> None:
        """A safety net: calls that mitmproxy itself lost track of must not stay in flight for ever."""
        if left := self._flows.of(client):
            asyncio.get_running_loop().call_later(_GRACE, self._abandon, left)

    def _abandon(self, calls: list[Call]) -> None:
        for call in calls:
            if self._flows.pop(call.id) is not None:
                self._capture.response(call, "client_disconnect", "the client has gone")

    def abort(self) -> None:
        """End what is still in flight: the proxy stops now."""
        self.closing = True
        for call in self._flows:
            self._flows.pop(call.id)
            self._capture.response(call, "aborted", "the proxy was stopped")
