"""A proxy in front of a store that does to requests what `Faults` says, and can be gone altogether for a while."""

from __future__ import annotations

import http.client
import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.stores._faults import Effect, Faults, Rule
from tests.stores._place import Endpoint, Place

_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "content-length", "date", "server"}
_CONDITIONS = {"if-none-match", "if-match"}
_KEPT = 100_000


@dataclass(slots=True)
class Seen:
    """One request: what was answered (None: nothing), and which fault struck it."""

    method: str
    path: str
    status: int | None
    effect: Effect | None


class FaultyStore:
    """A store behind its faults. Made by `faulty_store`."""

    def __init__(self, behind: Endpoint, seed: int, port: int = 0) -> None:
        self.faults = Faults(seed)
        self.seen: deque[Seen] = deque(maxlen=_KEPT)
        """The newest requests, in the order in which they began; without a status until they have ended."""
        self.behind = behind
        self.target = urlsplit(behind.url).netloc
        self._kept = _listener(port)
        self.port: int = self._kept.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self.back()

    def place(self, **options: str) -> Place:
        """As the store's own, by way of this proxy."""
        place = self.behind.place(**options)
        return Place(place.uri, {**place.options, "aws_endpoint": self.url})

    def client(self) -> Any:
        """boto3's, by way of this proxy, without retries."""
        return Endpoint(self.url).client()

    def away(self) -> None:
        """Connections are refused, and those that are open end, until `back`."""
        if self._server is None or self._thread is None:
            return
        self._server.gone = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.drop_all()
        self._server = None
        self._kept = _listener(self.port)  # bound and not listening: nobody else gets the port meanwhile

    def back(self) -> None:
        """Connections are taken again, at the same port."""
        if self._server is not None:
            return
        self._server = _Server(self, self._kept)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.away()
        self._kept.close()


@contextmanager
def faulty_store(behind: Endpoint, *, seed: int = 0, port: int = 0) -> Iterator[FaultyStore]:
    """A proxy in front of `behind`, without any fault to begin with."""
    store = FaultyStore(behind, seed, port)
    try:
        yield store
    finally:
        store.close()


def _listener(port: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    return made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, store: FaultyStore, bound: socket.socket) -> None:
        super().__init__(bound.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = bound
        self.store = store
        self.gone = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.server_activate()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def drop_all(self) -> None:
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:  # it ended by itself
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away in the middle is what faults are for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _store(self) -> FaultyStore:
        return self._own_server.store

    @property
    def _own_server(self) -> _Server:
        assert isinstance(self.server, _Server)
        return self.server

    def _serve(self) -> None:
        store = self._store
        rule = store.faults.strike(self.command, self.path)
        seen = Seen(self.command, self.path, None, rule.effect if rule else None)
        store.seen.append(seen)  # now: when the client has its answer, whoever counts has the request
        seen.status = self._struck(rule) if rule is not None else self._pass_on(self._body())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

    def _body(self, part: float = 1.0) -> bytes:
        return self.rfile.read(int(int(self.headers.get("content-length") or 0) * part))

    def _struck(self, rule: Rule) -> int | None:
        match rule.effect:
            case "status":
                self._body()
                time.sleep(self._store.faults.wait())
                error = f"<Error><Code>{rule.code}</Code><Message>as told</Message></Error>".encode()
                self._answer(rule.status, [("content-type", "application/xml")], error, len(error))
                return rule.status
            case "cut upload":
                self._body(0.5)
            case "hang":
                self._body()
                self._hang(rule.seconds)
            case "lost":
                self._ask(self._body())
            case "cut answer":
                return self._pass_on(self._body(), part=0.5)
            case "reset":
                self._body()
        self._reset()
        return None

    def _hang(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._own_server.gone:
            time.sleep(0.02)

    def _pass_on(self, body: bytes, part: float = 1.0) -> int | None:
        """Ask the store, and give its answer, or no more than a `part` of its body."""
        status, headers, answer = self._ask(body)
        if self._own_server.gone:
            self._reset()
            return None
        size = len(answer)
        if self.command == "HEAD":
            size = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        self._answer(status, headers, answer[: int(len(answer) * part)], size)
        if part < 1:
            self.close_connection = True
        return status

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        store = self._store
        time.sleep(store.faults.wait())
        left_out = _HOP if store.faults.conditions else _HOP | _CONDITIONS
        headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
        connection = http.client.HTTPConnection(store.target, timeout=60)
        try:
            connection.request(self.command, self.path, body, {**headers, "Content-Length": str(len(body))})
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, size: int) -> None:
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _reset(self) -> None:
        """End the connection with an RST, so that the client learns of it at once and as an error."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        os.close(self.connection.detach())

    def log_message(self, format: str, *args: object) -> None:
        pass
