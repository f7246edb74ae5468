"""Calls to the proxy's own ports, which would go round for ever."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from mitmproxy import connection, http
from mitmproxy.proxy import server_hooks


class Loops:
    """Recognises them by address, and those by another name of this machine once they come back in."""

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = frozenset(ports)
        self._own: set[tuple[str, int]] = set()

    def asks_for_us(self, request: http.Request) -> bool:
        """Whether a request's destination is the proxy itself."""
        return request.port in self._ports and is_local(request.host)

    def comes_from_us(self, client: connection.Client) -> bool:
        """Whether the proxy is its own client."""
        return bool(self._own) and client.peername[:2] in self._own

    def server_connected(self, data: server_hooks.ServerConnectionHookData) -> None:
        server = data.server
        if server.peername and server.sockname and server.peername[1] in self._ports and is_local(server.peername[0]):
            self._own.add((server.sockname[0], server.sockname[1]))

    def server_disconnected(self, data: server_hooks.ServerConnectionHookData) -> None:
        if self._own and data.server.sockname:
            self._own.discard((data.server.sockname[0], data.server.sockname[1]))


def is_local(host: str) -> bool:
    """Whether a name or address means this machine's loopback."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.rstrip(".").lower() in {"localhost", "localhost.localdomain", "ip6-localhost"}
    return address.is_loopback or address.is_unspecified
