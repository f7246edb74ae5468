"""Another proxy to go through, as the environment or a setting says: in most offices nothing else reaches the providers."""

from __future__ import annotations

import base64
import ipaddress
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from mitmproxy import http
from mitmproxy.net.http import url as urls
from mitmproxy.net.server_spec import ServerSpec

from stepwell.proxy._loops import is_local
from stepwell.proxy._upstream_url import environment_no_proxy, environment_proxy, proxy_parts

_log = logging.getLogger(__name__)


class Hop(tuple[str, int]):
    """Host and port of the other proxy, as mitmproxy carries them about, with what a connection made by way of it is for.

    mitmproxy uses a connection again for a call to the same host by an equal way. A hop is equal to itself only, so that calls with
    different credentials, or of different trajectories, never share a connection through the same proxy.
    """

    proxy: UpstreamProxy
    plain: bool
    """Requests are sent to the other proxy itself, instead of through a tunnel that it makes."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)


class UpstreamProxy:
    """One proxy for all that NO_PROXY does not except. What is on this machine is never asked for through another.

    Raises:
        ValueError: `url` is no proxy's. Says so without a word of it.
    """

    def __init__(self, url: str, no_proxy: str = "") -> None:
        self._said = (url, no_proxy)
        parts = proxy_parts(url)
        self._scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
        self.address = (parts.hostname or "", parts.port or (443 if self._scheme == "https" else 80))
        self.tunnel, self._plain = self._hop(plain=False), self._hop(plain=True)
        self.credentials = ""
        if parts.username or parts.password:
            pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self.credentials = "Basic " + base64.b64encode(pair.encode()).decode()
        exceptions = _exceptions(no_proxy.split(","))

        @lru_cache(maxsize=256)
        def excepts(host: str, port: int) -> bool:
            return is_local(host) or _is_excepted(host.lower().rstrip("."), port, exceptions)

        self.excepts = excepts

    def copy(self) -> UpstreamProxy:
        """The same proxy, for connections of others."""
        return UpstreamProxy(*self._said)

    def way(self, request: http.Request) -> ServerSpec:
        """How a request goes through: in a tunnel, or when it is plain HTTP as one to the other proxy, which it is made into here.

        Many proxies make tunnels to port 443 only (RFC 9110, section 9.3.6 advises it), and take plain requests by their whole URL
        (RFC 9112, section 3.2.2). A WebSocket needs a tunnel whatever the scheme (RFC 6455, section 4.1).
        """
        if request.scheme != "http" or request.is_http2 or "upgrade" in request.headers:
            return self.tunnel
        host = f"[{request.host}]" if ":" in request.host else request.host
        request.authority = urls.hostport("http", host, request.port)
        if self.credentials:
            request.headers["proxy-authorization"] = self.credentials
        return self._plain

    def _hop(self, *, plain: bool) -> ServerSpec:
        hop = Hop(self.address)
        hop.proxy, hop.plain = self, plain
        return self._scheme, hop


def is_plain(way: ServerSpec | None) -> bool:
    """Whether requests go to the other proxy itself."""
    return way is not None and isinstance(way[1], Hop) and way[1].plain


def http_connect_upstream(flow: http.HTTPFlow) -> None:
    """mitmproxy asks the other proxy for a tunnel."""
    hop = flow.server_conn.address
    if isinstance(hop, Hop) and hop.proxy.credentials:
        flow.request.headers["proxy-authorization"] = hop.proxy.credentials


def upstream_proxy(setting: str | None, environ: Mapping[str, str], own_ports: Collection[int]) -> UpstreamProxy | None:
    """The proxy that `setting` names, or the environment when it is None; None when neither does, or it is this proxy itself.

    An empty setting means none. Nothing of the URL but host and port is ever logged: it may hold a password.
    """
    named = environment_proxy(environ) if setting is None else ("setting", setting)
    if not named or not named[1]:
        return None
    try:
        found = UpstreamProxy(named[1], environment_no_proxy(environ))
    except ValueError:
        whose = "the environment" if setting is None else "proxy.upstream_proxy"
        _log.warning("the proxy that %s names is no http(s):// proxy; going without one", whose)
        return None
    host, port = found.address
    if port in own_ports and is_local(host):
        _log.info("the proxy that the environment names is this one; going without another")
        return None
    _log.info("going through the proxy %s:%d", host, port)
    return found


_Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Exception = tuple[str, int | None, _Network | None]
"""A name (`*`: any), a port when only that one is meant, and the network when it is one."""


def _exceptions(items: Iterable[str]) -> list[_Exception]:
    """As curl, Go and Python read NO_PROXY: names mean their subdomains too, with or without a leading dot or `*.`."""
    found: list[_Exception] = []
    for item in (item.strip().lower() for item in items):
        if not item:
            continue
        try:
            found.append((item, None, ipaddress.ip_network(item.strip("[]"), strict=False)))
            continue
        except ValueError:
            name, colon, port = item.rpartition(":")
        only = int(port) if colon and port.isdecimal() else None
        name = name if only is not None else item
        found.append((name.strip("[]").removeprefix("*.").lstrip(".") if name != "*" else "*", only, None))
    return found


def _is_excepted(host: str, port: int, exceptions: Iterable[_Exception]) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for name, only, network in exceptions:
        if only is not None and only != port:
            continue
        if network is not None:
            if address is not None and address in network:
                return True
        elif name == "*" or host == name or (address is None and host.endswith(f".{name}")):
            return True
    return False
