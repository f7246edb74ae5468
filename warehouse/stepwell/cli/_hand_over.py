"""Sending a browser to an address that is a secret: it is opened at one of ours, which is good once.

A browser is started with its address on its command line, which everybody on the machine can read.
"""

from __future__ import annotations

import secrets
import threading
import time
import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer

from stepwell.errors import SettingsError

PATIENCE = 60.0
"""Seconds that a browser is given to come."""
_STRANGERS = 20
"""Requests for anything else, after which something is wrong."""


def hand_over(address: str, patience: float = PATIENCE) -> None:
    """Have the browser come to us once, by an address that is worth nothing afterwards, and send it on.

    Raises:
        SettingsError: there is no browser to open, or it did not come.
    """
    path = f"/{secrets.token_urlsafe(24)}"
    server = _Once(address, path)
    serving = threading.Thread(target=server.serve, args=(patience,))
    serving.start()  # before: a browser in the terminal returns when it is closed
    try:
        if not webbrowser.open(f"http://127.0.0.1:{server.server_port}{path}"):
            raise SettingsError("there is no browser to open here; `stepwell dashboard` prints the address")
        serving.join()
    finally:
        server.over = True
        serving.join()
        server.server_close()
    if not server.done:
        raise SettingsError("the browser did not come for the dashboard; `stepwell dashboard` prints the address")


class _Once(HTTPServer):
    """Answers one path, once, with where to go."""

    def __init__(self, address: str, path: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.address, self.path = address, path
        self.timeout = 0.1
        self.done = self.over = False
        self.strangers = 0

    def serve(self, patience: float) -> None:
        """Until it has answered, or so many seconds are over, or too many came for something else."""
        until = time.monotonic() + patience
        while not (self.done or self.over) and self.strangers < _STRANGERS and time.monotonic() < until:
            self.handle_request()


class _Answer(BaseHTTPRequestHandler):
    timeout = 5

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, _Once)
        known = not server.done and secrets.compare_digest(self.path.encode(), server.path.encode())
        self.send_response(302 if known else 404)
        if known:
            server.done = True
            self.send_header("Location", server.address)
        else:
            server.strangers += 1
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the path is a secret."""
