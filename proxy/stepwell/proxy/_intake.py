"""Taking calls in: what a request is, whose, where it goes, and what is taken off it before it is forwarded."""

from __future__ import annotations

from mitmproxy import http

from stepwell.exchange import Dialect, dialect_for
from stepwell.proxy._auth import Gate
from stepwell.proxy._base import Entered
from stepwell.proxy._flows import Call
from stepwell.proxy._hosts import HostTest
from stepwell.proxy._route import Router, add_flags, choose, json_body, redirect

_OWN = b"x-stepwell-"
_SIGNED = "AWS4-"
"""How an Authorization begins that signs headers too, and names them (Signature Version 4)."""


class Intake:
    """Makes a `Call` of each request."""

    def __init__(self, watched: HostTest, gate: Gate, router: Router) -> None:
        self._watched = watched
        self._gate = gate
        self._router = router

    def take_in(self, flow: http.HTTPFlow, entered: Entered | None = None) -> Call:
        """The call of a request whose head is there; `entered` when it came in by a base URL. Only watched hosts' are looked into."""
        request, client = flow.request, flow.client_conn
        host = request.host
        watched = entered is not None or self._watched(host, request.port)
        if client.sni and not watched:
            host = client.sni  # the client resolved the name by itself, and asked for a tunnel to the address
            watched = self._watched(host, request.port)
        trajectory = (entered.trajectory_id if entered else None) or self._gate.trajectory(client)
        call = Call(flow.id, client, _url(request, host), trajectory)
        if not watched:
            return call
        call.dialect = dialect_for(request.method, request.path)
        if call.dialect is None and request.headers.get("upgrade", "").lower() == "websocket":
            call.socket = dialect_for("WEBSOCKET", request.path)
        _strip(request, call)
        candidates = self._router.candidates(host, request.port, request.path)
        if call.dialect is not None and any(route.model is not None for route in candidates):
            call.routes = candidates  # decided when the body, which names the model, is there
        elif route := choose(candidates, None):
            call.route = route
            redirect(request, route)
        return call

    def steer(self, request: http.Request, call: Call, dialect: Dialect) -> tuple[str, ...]:
        """What a route says about a generation: where to, and what to ask the engine for besides. The names of what was added."""
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


def _strip(request: http.Request, call: Call) -> None:
    """Take off what is for us, and for a generation `accept-encoding`, so that what is recorded is plain.

    A header that the client has signed stays: without it the upstream would refuse the call.
    """
    headers = request.headers
    own = any(name[:11].lower() == _OWN for name, _ in headers.fields)
    if not own and call.dialect is None:
        return
    signed = _signed(headers.get("authorization", ""))
    if call.dialect is not None and "accept-encoding" not in signed:
        headers.pop("accept-encoding", None)
    if own:
        fields = [(name, value, name[:11].lower() == _OWN) for name, value in headers.fields]
        call.own = [
            (n.decode("latin-1"), v.decode("utf-8", "replace"))
            for n, v, ours in fields
            if ours and _of(n) not in signed
        ]
        headers.fields = tuple((n, v) for n, v, ours in fields if not ours or _of(n) in signed)


def _of(name: bytes) -> str:
    return name.decode("latin-1").lower()


def _signed(authorization: str) -> frozenset[str]:
    if not authorization.startswith(_SIGNED):
        return frozenset()
    names = authorization.partition("SignedHeaders=")[2].partition(",")[0]
    return frozenset(names.strip().lower().split(";"))


def _url(request: http.Request, host: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    usual = 443 if request.scheme == "https" else 80
    port = "" if request.port == usual else f":{request.port}"
    url = f"{request.scheme}://{shown}{port}{request.path}"
    return url if url.isascii() else url.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
