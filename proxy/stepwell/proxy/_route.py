"""Routes: other upstreams for calls to a host, and the request fields that make an engine return token ids.

mitmproxy opens the upstream connection after the request was read (`connection_strategy=lazy`), so that scheme, host and port can
be rewritten until then without anybody having talked to the original host.
"""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import orjson
from mitmproxy import http

from stepwell.exchange import Dialect, decode
from stepwell.proxy._config import Route
from stepwell.proxy._hosts import host_test

_log = logging.getLogger(__name__)

_LIMIT = 64 << 20
"""Most bytes of a request body that are looked into; a larger one passes as it is."""


class Router:
    """The routes, in their order."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = [(route, host_test([route.host])) for route in routes]

    def candidates(self, host: str, port: int, path: str) -> tuple[Route, ...]:
        """The routes that fit a call by host and path: up to and with the first that does not depend on the model too."""
        return tuple(self._fitting(host, port, path)) if self._routes else ()

    def _fitting(self, host: str, port: int, path: str) -> Iterator[Route]:
        for route, is_host in self._routes:
            if is_host(host, port) and path.startswith(route.path):
                yield route
                if route.model is None:
                    return


def choose(candidates: Sequence[Route], body: dict[str, Any] | None) -> Route | None:
    """The first of `candidates` that fits the model asked for."""
    model = body.get("model") if body else None
    for route in candidates:
        if route.model is None or (isinstance(model, str) and fnmatch.fnmatchcase(model, route.model)):
            return route
    return None


def redirect(request: http.Request, route: Route) -> None:
    """Send a request to the route's upstream. Sets the Host header too."""
    if route.upstream is None:
        return
    prefix = aim(request, route.upstream)
    if prefix is not None:
        request.path = prefix.rstrip("/") + "/" + request.path[len(route.path) :].lstrip("/")


def aim(request: http.Request, upstream: str) -> str | None:
    """Send a request to `upstream`, a URL; its path, which the caller has to apply, or None when it has none."""
    request.scheme, request.host, request.port, prefix = _upstream(upstream)
    return prefix


@lru_cache(maxsize=256)
def _upstream(url: str) -> tuple[str, str, int, str | None]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname or "", port, parts.path or None


def json_body(request: http.Request) -> tuple[bytes, dict[str, Any]] | None:
    """A request's body, decoded and parsed; None when it is no JSON object, or too large to look into."""
    raw = request.raw_content or b""
    if not raw or len(raw) > _LIMIT:
        return None
    if encoding := request.headers.get("content-encoding"):
        decoded = decode(raw, encoding, _LIMIT)
        if decoded.problem:
            _log.info("a request body cannot be looked into: %s", decoded.problem)
            return None
        raw = decoded.body
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return (raw, body) if isinstance(body, dict) else None


def add_flags(
    request: http.Request, parsed: tuple[bytes, dict[str, Any]], engine: str, dialect: Dialect
) -> tuple[str, ...]:
    """Ask `engine` for token ids and logprobs; the names of the fields and headers that were added.

    What the agent sent stays byte for byte: the fields are put before the closing brace, unless one of them is there already with
    another value. A compressed body goes on uncompressed.
    """
    raw, body = parsed
    flags, names = dialect.flags(engine, body), list[str]()
    for name in [name for name in flags if name.startswith("x-")]:
        request.headers[name] = flags.pop(name)
        names.append(name)
    if not flags:
        return tuple(names)
    if flags.keys() & body.keys():
        content = orjson.dumps({**body, **flags})
    else:
        comma = b"," if body else b""
        content = raw.rstrip()[:-1] + comma + orjson.dumps(flags)[1:]
    request.headers.pop("content-encoding", None)
    request.content = content
    return (*flags, *names)
