"""Which hosts passed unread, and who does not trust our certificate: what a doctor needs to say why a call is missing."""

from __future__ import annotations

import logging
from typing import Any

from mitmproxy import tls

_log = logging.getLogger(__name__)

_MAX_NAMES = 1000
"""Names counted at a time; what comes after them is counted together."""
_DISTRUST = ("unknown ca", "bad certificate", "certificate unknown", "certificate_unknown", "connection closed")
"""What a handshake error says when the client may not trust us. Many just hang up."""


class Tally:
    """Counts by name, for a bounded number of names."""

    def __init__(self, limit: int = _MAX_NAMES) -> None:
        self._counts: dict[str, int] = {}
        self._limit = limit
        self.others = 0
        """Counted under no name: there were too many."""

    def add(self, name: str) -> int:
        """Count it; how often it was, or 0 when it has no place of its own."""
        if name in self._counts or len(self._counts) < self._limit:
            self._counts[name] = self._counts.get(name, 0) + 1
            return self._counts[name]
        self.others += 1
        return 0

    def document(self) -> dict[str, Any]:
        """The counts, most first."""
        return {"hosts": dict(sorted(self._counts.items(), key=lambda item: -item[1])), "others": self.others}


class Seen:
    """Tallies since the proxy was started."""

    def __init__(self) -> None:
        self.clients: dict[str, int] = {}
        """Connections of clients by the port they came to: there are two."""
        self.passed = Tally()
        self.distrusted = Tally()

    def client_came(self, port: int) -> None:
        name = str(port)
        self.clients[name] = self.clients.get(name, 0) + 1

    def host_passed(self, host: str, port: int) -> None:
        """A tunnel to a host that is not decrypted."""
        self.passed.add(_shown(host, port))

    def tls_failed_client(self, data: tls.TlsData) -> None:
        """A client broke off the handshake with us."""
        error = (data.conn.error or "").lower()
        address = data.context.server.address
        host = data.context.client.sni or (address[0] if address else "")
        if not host or not any(word in error for word in _DISTRUST):
            return
        host = _shown(host, address[1] if address else 443)
        if self.distrusted.add(host) == 1:
            _log.warning(
                "a client does not trust the proxy's certificate for %s, so its calls fail: start it with `stepwell run`, "
                "or give it the certificate of `stepwell ca`",
                host,
            )

    def document(self) -> dict[str, Any]:
        """All of it, for `GET /hosts`."""
        return {"clients": self.clients, "passed": self.passed.document(), "distrusted": self.distrusted.document()}


def _shown(host: str, port: int) -> str:
    name = host.lower().rstrip(".")[:255]
    return name if port == 443 else f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def quiet(record: logging.LogRecord) -> bool:
    """A filter for mitmproxy's log: it would say of every failed handshake what is said here once per host."""
    return not record.getMessage().startswith("Client TLS handshake failed")
