"""Who may talk to the gateway: tokens and their scopes, and the defences against other people's web pages.

A page in the user's browser can reach 127.0.0.1. Checking `Host` stops DNS rebinding; checking `Origin` stops cross-site requests;
no CORS header is ever sent. A token is asked for everywhere but where nothing is given away.

The installation's own token, of a file that only the user can read, may do everything, and is good for connections from this machine:
for everybody where the gateway listens on a loopback address, else for clients of a loopback address only.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwell.gateway._config import LOOPBACK
from stepwell.gateway._grants import Grants
from stepwell.gateway._problems import Problem
from stepwell.gateway._project import PROJECT
from stepwell.gateway._scopes import is_open, scopes_for
from stepwell.gateway._tokens import Token

__all__ = ["Guard"]

_OWN = Token("installation", b"", frozenset({"admin"}))
_REALM = 'Bearer realm="stepwell"'


class Guard:
    """ASGI middleware around the whole application, so that unknown paths are guarded too.

    `grants`: the tokens with scopes; `local_only`: the installation's token is refused to clients from elsewhere.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: Iterable[str] = (),
        grants: Grants | None = None,
        local_only: bool = False,
    ) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = LOOPBACK | {host.strip("[]").lower() for host in hosts}
        self._grants = grants
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            try:
                token = await self._let_in(scope)
            except Problem as problem:
                await problem.response()(scope, receive, send)
                return
            project = PROJECT.set(None if token is None else token.project)
            try:
                await self._app(scope, receive, send)
            finally:
                PROJECT.reset(project)
        else:
            await send({"type": "websocket.close", "code": 1008})  # there are no WebSocket routes

    async def _let_in(self, scope: Scope) -> Token | None:
        """The token that the request has, None where none is asked for. Raises Problem: 421, 403, 401."""
        headers, path = Headers(scope=scope), scope["path"]
        host = headers.get("host", "")
        if _name(host) not in self._hosts:
            detail = (
                f"this gateway does not answer to the host name {host[:200]!r}; see the setting gateway.allowed_hosts"
            )
            raise Problem(421, detail)
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
            raise Problem(403, "requests from other web origins are refused")
        if is_open(path):
            return None
        token = await self._token_of(headers.get("authorization", ""), scope)
        needed = scopes_for(scope["method"], path)
        if needed is not None and not token.scopes & (needed | {"admin"}):
            named = " or ".join(sorted(needed) or ["admin"])
            challenge = f'{_REALM}, error="insufficient_scope", scope="{" ".join(sorted(needed) or ["admin"])}"'
            detail = f"this token has not the scope {named} that {scope['method']} {path[:200]} needs"
            raise Problem(403, detail, headers={"www-authenticate": challenge})
        return token

    async def _token_of(self, authorization: str, scope: Scope) -> Token:
        """The token that was sent. Raises Problem (401) for none, and with the same words for one that is unknown, expired or revoked."""
        kind, _, rest = authorization.partition(" ")
        given = rest.strip()
        if kind.lower() == "bearer":
            own = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token)
            if own and not (self._local_only and not _is_local(scope)):
                return _OWN
            if self._grants is not None and (found := await self._grants.find(given)) is not None:
                return found
        challenge = f'{_REALM}, error="invalid_token"' if given else _REALM
        detail = (
            "send the header 'Authorization: Bearer <token>' with a token that is good: one of `stepwell token create`, "
            "or, on the gateway's own machine, the installation's (see STEPWELL_HOME)"
        )
        raise Problem(401, detail, headers={"www-authenticate": challenge})


def _is_local(scope: Scope) -> bool:
    """Whether the connection comes from this machine."""
    try:
        return ipaddress.ip_address((scope.get("client") or ("", 0))[0]).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """The host of a Host header, without port and brackets, in lower case; empty for nonsense."""
    try:
        parts = urlsplit(f"//{host}")
        return (parts.hostname or "").lower() if parts.netloc == host and "@" not in host else ""
    except ValueError:
        return ""
