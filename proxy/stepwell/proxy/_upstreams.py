"""Whose calls go through which other proxy: a trajectory's through the one it was opened with, all others through the proxy's own.

Kept in memory only, since the URLs may hold passwords: a trajectory's is forgotten when it ends, or when the process does.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from urllib.parse import unquote

from stepwell.proxy._loops import is_local
from stepwell.proxy._upstream import UpstreamProxy
from stepwell.proxy._upstream_url import proxy_parts

_log = logging.getLogger(__name__)

_MAX_KNOWN = 10_000
"""Trajectories with a proxy of their own at a time. Those whose `stepwell run` was killed never end."""


class Upstreams:
    """The proxy for everybody, and those of single trajectories."""

    def __init__(self, own: UpstreamProxy | None = None, ports: Collection[int] = ()) -> None:
        self._own = own
        self._ports = frozenset(ports)
        self._known: dict[str, UpstreamProxy] = {}  # by trajectory, the one opened first comes first

    def read(self, url: str, no_proxy: str) -> UpstreamProxy | None:
        """The proxy that a trajectory is opened with; None: it has none of its own.

        A URL of this very proxy is that of a run within a run: it goes where the outer trajectory, its user name, goes.

        Raises:
            ValueError: it is no proxy's URL. Says so without a word of it.
        """
        if not url:
            return None
        parts = proxy_parts(url)
        if parts.port in self._ports and is_local(parts.hostname or ""):
            outer = self._known.get(unquote(parts.username or ""))
            return outer.copy() if outer else None
        return UpstreamProxy(url, no_proxy)

    def assign(self, trajectory: str, proxy: UpstreamProxy | None) -> None:
        """From now on, the calls of a trajectory go through `proxy`; None: through that for everybody."""
        self._known.pop(trajectory, None)
        if proxy is None:
            return
        self._known[trajectory] = proxy
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]
            _log.warning(
                "more than %d trajectories have a proxy of their own; that of the one opened first is forgotten",
                _MAX_KNOWN,
            )

    def forget(self, trajectory: str) -> None:
        """The trajectory is over."""
        self._known.pop(trajectory, None)

    def through(self, trajectory: str | None, host: str, port: int) -> UpstreamProxy | None:
        """The proxy that a call to host and port goes through; None: it goes there directly."""
        found = self._of(trajectory)
        return found if found is not None and not found.excepts(host, port) else None

    def address(self, trajectory: str | None = None) -> str | None:
        """`host:port` of a trajectory's proxy, or of that for everybody: all of a URL that may be shown."""
        found = self._of(trajectory)
        return f"{found.address[0]}:{found.address[1]}" if found else None

    def _of(self, trajectory: str | None) -> UpstreamProxy | None:
        return self._known.get(trajectory, self._own) if trajectory is not None else self._own
