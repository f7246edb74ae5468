"""Who may talk to the gateway: the token, and the defences against other people's web pages.

A page in the user's browser can reach 127.0.0.1. Checking `Host` stops DNS rebinding; checking `Origin` stops cross-site requests;
no CORS header is ever sent. The token is asked for everywhere but where nothing is given away.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwell.gateway._config import LOOPBACK
from stepwell.gateway._problems import problem_response

__all__ = ["Guard"]

OPEN_PATHS = frozenset({"/api/v1/health", "/api/v1/ready", "/metrics"})
SIGNED_PATHS = "/api/v1/webhooks/"
"""What lies below is let in by its signature."""


class Guard:
    """ASGI middleware around the whole application, so that unknown paths are guarded too."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = LOOPBACK | {host.strip("[]").lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = self._refusal(headers, scope["scheme"], scope["path"])
            if refusal is None:
                await self._app(scope, receive, send)
            else:
                status, detail = refusal
                extra = {"www-authenticate": 'Bearer realm="stepwell"'} if status == 401 else {}
                await problem_response(status, detail, headers=extra)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})  # there are no WebSocket routes

    def _refusal(self, headers: Headers, scheme: str, path: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            return (
                421,
                f"this gateway does not answer to the host name {host[:200]!r}; see the setting gateway.allowed_hosts",
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scheme}://{host}".lower():
            return 403, "requests from other web origins are refused"
        free = path in OPEN_PATHS or path.startswith(SIGNED_PATHS)
        if not free and not self._admits(headers.get("authorization", "")):
            return (
                401,
                "send the header 'Authorization: Bearer <token>' with the installation's token (see STEPWELL_HOME)",
            )
        return None

    def _admits(self, authorization: str) -> bool:
        kind, _, token = authorization.partition(" ")
        given = token.strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(given, self._token) and kind.lower() == "bearer"


def _name(host: str) -> str:
    """The host of a Host header, without port and brackets, in lower case; empty for nonsense."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").lower() if parts.netloc == host and "@" not in host else ""
    except ValueError:
        return ""
