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

from stepwell.exchange import Dialect, End, dialect_for
from stepwell.proxy._auth import Gate, refusal
from stepwell.proxy._capture import Capture
from stepwell.proxy._config import CONTROL_HOST
from stepwell.proxy._control import Control
from stepwell.proxy._flows import Call, Flows
from stepwell.proxy._hosts import HostTest
from stepwell.proxy._layers import FAILED, mark_failures
from stepwell.proxy._loops import Loops
from stepwell.proxy._passthrough import Passthrough
from stepwell.proxy._route import Router, add_flags, choose, json_body, redirect

_OWN = (
    "This host is the Stepwell proxy's own: it takes plain requests with credentials, on the port for `stepwell run`.\n"
)
_LOOP = (
    "The request would come back to the Stepwell proxy itself. Check the address, and the upstreams of your routes.\n"
)
_CLOSING = "The Stepwell proxy is shutting down.\n"
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
        flows: Flows,
        capture: Capture,
        control: Control,
    ) -> None:
        self._watched = watched
        self._gate = gate
        self._loops = loops
        self._router = router
        self._flows = flows
        self._capture = capture
        self._control = control
        self._passthrough = Passthrough(watched)
        self.tls_clienthello = self._passthrough.tls_clienthello
        self.server_connected = loops.server_connected
        self.server_disconnected = loops.server_disconnected
        self.closing = False

    def next_layer(self, next_layer: layer.NextLayer) -> None:
        """Runs after mitmproxy's own `NextLayer` has decided."""
        self._passthrough.next_layer(next_layer)
        mark_failures(next_layer)

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """A tunnel is asked for."""
        if self._gate.admit(flow):
            self._refuse_loop(flow)
            if flow.request.host == CONTROL_HOST:
                flow.response = refusal(403, _OWN)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request begins: `flow.response`, when set, is given instead of an answer from upstream."""
        if not self._gate.admit(flow) or self._refuse_loop(flow):
            return
        request, client = flow.request, flow.client_conn
        if request.host == CONTROL_HOST:
            if not self._gate.wants_credentials(client):
                flow.response = refusal(403, _OWN)
            return
        if self.closing:
            flow.response = refusal(503, _CLOSING)
            return
        call = self._take_in(flow)
        if self._refuse_loop(flow):
            self._flows.pop(call.id)
        elif call.dialect is None:
            request.stream = True
        else:
            request.headers.pop("accept-encoding", None)  # so that what is recorded is plain

    def _refuse_loop(self, flow: http.HTTPFlow) -> bool:
        if not (self._loops.asks_for_us(flow.request) or self._loops.comes_from_us(flow.client_conn)):
            return False
        flow.response = refusal(508, _LOOP)
        return True

    def _take_in(self, flow: http.HTTPFlow) -> Call:
        request, client = flow.request, flow.client_conn
        host = request.host
        if client.sni and not self._watched(host, request.port):
            host = client.sni  # the client resolved the name by itself, and asked for a tunnel to the address
        call = Call(flow.id, client, _url(request, host), trajectory_id=self._gate.trajectory(client))
        self._flows.add(call)
        if not self._watched(host, request.port):
            return call
        call.dialect = dialect_for(request.method, request.path)
        candidates = self._router.candidates(host, request.port, request.path)
        if call.dialect is not None and any(route.model is not None for route in candidates):
            call.routes = candidates  # decided when the body, which names the model, is there
        elif route := choose(candidates, None):
            call.route = route
            redirect(request, route)
        return call

    def request(self, flow: http.HTTPFlow) -> Awaitable[None] | None:
        """A request was read whole; it is forwarded when this returns."""
        if flow.request.host == CONTROL_HOST and flow.response is None:
            return self._control.answer(flow)
        call = self._flows.get(flow.id)
        if call is None or call.dialect is None:
            return None
        added = self._steer(flow.request, call, call.dialect)
        if call.routes and self._refuse_loop(flow):
            self._flows.pop(call.id)
        else:
            self._capture.request(call, flow.request, added)
        return None

    def _steer(self, request: http.Request, call: Call, dialect: Dialect) -> tuple[str, ...]:
        """What a route says about a generation: where to, and what to ask the engine for besides."""
        if not call.routes and (call.route is None or call.route.engine is None):
            return ()
        parsed = json_body(request)
        if call.routes:
            call.route = choose(call.routes, parsed[1] if parsed else None)
            if call.route is not None:
                redirect(request, call.route)
        if parsed is None or call.route is None or call.route.engine is None:
            return ()
        return add_flags(request, parsed, call.route.engine, dialect)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """An answer begins. It is streamed whatever its content type says, or mitmproxy would hold it back to its end."""
        call, response = self._flows.get(flow.id), flow.response
        if call is not None and response is not None and response.status_code != 101:
            call.response = response
            response.stream = self._capture.tee(call) if call.dialect else True

    def response(self, flow: http.HTTPFlow) -> None:
        """An answer has passed to its last byte."""
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

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Relayed and forgotten: mitmproxy would keep every message until the socket closes."""
        if flow.websocket is not None:
            del flow.websocket.messages[:-1]

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


def _url(request: http.Request, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    usual = 443 if request.scheme == "https" else 80
    port = "" if request.port == usual else f":{request.port}"
    url = f"{request.scheme}://{shown}{port}{request.path}"
    return url if url.isascii() else url.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
