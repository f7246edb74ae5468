"""What Prometheus is told by ingest, which has no other port: `http://<host>:<port>/metrics`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import Any

from stepwell.errors import SettingsError
from stepwell.spool import CONTENT_TYPE, Figure, exposition

_PATIENCE = 10.0
"""Seconds for a client to say what it wants."""


@contextmanager
def served(host: str, port: int, figures: Callable[[], list[Figure]]) -> Iterator[int]:
    """Serve while it lasts; the actual port. `figures` is called for each request, on a thread of its own.

    Raises:
        SettingsError: the address is taken, or cannot be listened on.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_GET(self) -> None:
            found = self.path.partition("?")[0] == "/metrics"
            body = exposition(figures()) if found else b"there is /metrics\n"
            self.send_response(200 if found else 404)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        address_family = AF_INET6 if ":" in host else AF_INET
        daemon_threads = True

    try:
        server = Server((host, port), Handler)
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {host} port {port} ({error.strerror}): set ingest.metrics_port to another one (0: any free one)"
        ) from error
    thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
