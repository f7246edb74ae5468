"""Who submitted lately: clients of the gateway by the name that their program gives itself, their address and their token's project."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stepwell.gateway._project import PROJECT
from stepwell.gateway._scopes import is_open

__all__ = ["Client", "Clients", "Counted"]

_MOST = 200
"""Clients that are remembered: those that came last."""
_NAME = 200


@dataclass(slots=True)
class Client:
    """One of them, since the gateway started."""

    user_agent: str
    address: str
    project: str | None
    first_at: datetime
    last_at: datetime
    requests: int = 0
    refused: int = 0
    """Requests that were answered with 400 or more."""


class Clients:
    """Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str, str | None], Client] = OrderedDict()

    def came(self, user_agent: str, address: str, project: str | None, *, refused: bool) -> None:
        """Count a request that was answered."""
        key, now = (user_agent[:_NAME], address, project), datetime.now(UTC)
        with self._lock:
            client = self._known.setdefault(key, Client(*key, first_at=now, last_at=now))
            self._known.move_to_end(key)
            client.last_at, client.requests, client.refused = now, client.requests + 1, client.refused + refused
            if len(self._known) > _MOST:
                self._known.popitem(last=False)

    def list(self) -> list[dict[str, Any]]:
        """The last one first."""
        with self._lock:
            return [asdict(client) for client in reversed(self._known.values())]


class Counted:
    """ASGI middleware: notes who submits. It stands behind the guard, so nobody is noted who was not let in; where no token is
    asked for, only whose request was taken."""

    def __init__(self, app: ASGIApp, *, clients: Clients) -> None:
        self._app, self._clients = app, clients

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                agent = Headers(scope=scope).get("user-agent", "")
                address = (scope.get("client") or ("", 0))[0]
                refused = message["status"] >= 400
                if not (refused and is_open(scope["path"])):
                    self._clients.came(agent, address, PROJECT.get(), refused=refused)
            await send(message)

        await self._app(scope, receive, noted)
