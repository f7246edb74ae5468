"""Another proxy to go through, as the environment or a setting says: in most offices nothing else reaches the providers."""

from __future__ import annotations

import base64
import ipaddress
import logging
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote, urlsplit

from mitmproxy import http
from mitmproxy.net.server_spec import ServerSpec

from stepwell.proxy._loops import is_local

_log = logging.getLogger(__name__)

_NAMED_BY = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_EXCEPTED_BY = ("no_proxy", "NO_PROXY")


class UpstreamProxy:
    """One proxy for all that NO_PROXY does not except. What is on this machine is never asked for through another."""

    def __init__(self, url: str, no_proxy: str = "") -> None:
        parts = urlsplit(url)
        scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
        self.address = (parts.hostname or "", parts.port or (443 if scheme == "https" else 80))
        self._spec: ServerSpec = (scheme, self.address)
        self._credentials = ""
        if parts.username or parts.password:
            pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            self._credentials = "Basic " + base64.b64encode(pair.encode()).decode()
        excepted = _exceptions(no_proxy.split(","))

        @lru_cache(maxsize=4096)
        def via(host: str, port: int) -> ServerSpec | None:
            return None if is_local(host) or _is_excepted(host.lower().rstrip("."), port, excepted) else self._spec

        self.via = via

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        """mitmproxy asks the other proxy for a tunnel."""
        if self._credentials:
            flow.request.headers["proxy-authorization"] = self._credentials


def upstream_proxy(setting: str | None, environ: Mapping[str, str], own_ports: Collection[int]) -> UpstreamProxy | None:
    """The proxy that `setting` names, or the environment when it is None; None when neither does, or it is this proxy itself.

    An empty setting means none. Nothing of the URL but host and port is ever logged: it may hold a password.
    """
    url = setting if setting is not None else _first(environ, _NAMED_BY)
    if not url:
        return None
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or not url.lower().startswith(("http://", "https://")):
        _log.warning("the proxy that the environment names is no http(s):// proxy; going without one")
        return None
    if port in own_ports and is_local(host):
        _log.info("the proxy that the environment names is this one; going without another")
        return None
    found = UpstreamProxy(url, _first(environ, _EXCEPTED_BY))
    _log.info("going through the proxy %s:%d", *found.address)
    return found


def _first(environ: Mapping[str, str], names: Iterable[str]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


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
