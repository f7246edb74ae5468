"""A proxy as it is run, in a process of its own, and small HTTPS servers to stand behind it."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from stepwell.exchange import REQUEST, RESPONSE, Exchange, exchange_from
from stepwell.proxy import ProxyConfig
from stepwell.spool import LOST, Record, SpoolReader
from stepwell.testing import ThrowawayCA

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of packages that mitmproxy loads and we never use
    import mitmproxy.addons  # noqa: F401

TOKEN = "the-token-of-this-installation"

T = TypeVar("T")

_RUN = """
import json, logging, sys
from pathlib import Path
from stepwell.proxy import ProxyConfig, run_proxy
logging.basicConfig(level=logging.INFO)
config, data, home, token = sys.argv[1:]
run_proxy(
    ProxyConfig.model_validate_json(config), data=Path(data), home=Path(home), token=token,
    ready=lambda ports: print(json.dumps(ports), flush=True),
)
"""


def eventually(look: Callable[[], T], seconds: float = 20.0) -> T:
    """The first true value of `look`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, f"still {value!r} after {seconds} s"
        time.sleep(0.02)
    return value


class Upstream:
    """An HTTPS (or plain) server on a free port. `answer` gets each request's handler, in a thread of its own."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler, bytes], None], certificate: Path | None) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, ssl.SSLError):  # what hanging up looks like from here
                    self.close_connection = True

            def _any(self) -> None:
                body = _chunked(self) if self.headers.get("transfer-encoding") else None
                if body is None:
                    body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                upstream.seen.append((self.command, self.path, headers, body))
                answer(self, body)

            do_GET = do_POST = _any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _chunked(handler: BaseHTTPRequestHandler) -> bytes:
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Grüße 👋"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}
REPLY_BYTES = json.dumps(REPLY, ensure_ascii=False).encode()


def plain_answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
    """A complete chat completion."""
    reply(handler, REPLY_BYTES)


def reply(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"content_type": "application/json", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("content-length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def start_stream(handler: BaseHTTPRequestHandler, **headers: str) -> Callable[[bytes], None]:
    """Begin a chunked answer; the function returned sends a piece, `b""` ends it."""
    handler.send_response(200)
    for name, value in {"content_type": "text/event-stream", **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()

    def send(piece: bytes) -> None:
        handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        handler.wfile.flush()

    return send


def event(text: str) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


@dataclass
class RunningProxy:
    """The proxy in a process of its own."""

    process: subprocess.Popen[str]
    data: Path
    home: Path
    ports: dict[str, int]
    log: Path
    trust: Path
    clients: list[httpx2.Client] = field(default_factory=list)

    @property
    def anonymous(self) -> str:
        return f"http://127.0.0.1:{self.ports['port']}"

    def url(self, user: str = "", token: str = TOKEN) -> str:
        return f"http://{user}:{token}@127.0.0.1:{self.ports['run_port']}"

    @property
    def context(self) -> ssl.SSLContext:
        """What an agent trusts: the public authorities and this installation's."""
        return ssl.create_default_context(cafile=str(self.home / "ca" / "mitmproxy-ca-cert.pem"))

    def client(self, proxy: str | None = None, **options: Any) -> httpx2.Client:
        client = httpx2.Client(
            proxy=proxy or self.anonymous, verify=options.pop("verify", None) or self.context, timeout=30, **options
        )
        self.clients.append(client)
        return client

    @property
    def spool(self) -> Path:
        return self.data / "spool" / "proxy.db"

    def records(self) -> list[Record]:
        with closing(SpoolReader(self.spool)) as reader:
            return reader.read(0, limit=10_000)

    def exchanges(self, upstream: Upstream | int, count: int = 1) -> list[Exchange]:
        """All exchanges with an upstream (or its port), once there are `count` of them."""
        port = upstream if isinstance(upstream, int) else upstream.port

        def whole() -> list[Exchange]:
            records = self.records()
            requests = {record.id: record for record in records if record.kind == REQUEST}
            ends = [record for record in records if record.kind in {RESPONSE, LOST} and record.ref in requests]
            found = [exchange_from(requests[end.ref or ""], end) for end in ends]
            return [exchange for exchange in found if f":{port}/" in exchange.request.url]

        return eventually(lambda: found if len(found := whole()) >= count else [])

    def spool_bytes(self) -> bytes:
        """Everything on disk, the log included."""
        return b"".join(path.read_bytes() for path in [*self.spool.parent.iterdir(), self.log])

    def stop(self) -> int:
        for client in self.clients:
            client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


StartProxy = Callable[..., RunningProxy]
StartUpstream = Callable[..., Upstream]


def make_ca(folder: Path, *names: str) -> tuple[Path, Path]:
    """An authority (PEM), and a server certificate of it with its key for those names."""
    authority = ThrowawayCA()
    certificate, key = authority.issue(list(names))
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "server.pem").write_bytes(certificate + key)
    return folder / "ca.pem", folder / "server.pem"


@pytest.fixture(scope="session")
def upstream_ca(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An authority for upstreams (PEM), and a server certificate of it with its key for localhost."""
    return make_ca(tmp_path_factory.mktemp("upstream-ca"), "localhost", "127.0.0.1")


@pytest.fixture
def start_upstream(upstream_ca: tuple[Path, Path]) -> Iterator[StartUpstream]:
    running: list[Upstream] = []

    def start(answer: Callable[[BaseHTTPRequestHandler, bytes], None] = plain_answer, *, tls: bool = True) -> Upstream:
        running.append(Upstream(answer, upstream_ca[1] if tls else None))
        return running[-1]

    yield start
    for upstream in running:
        upstream.close()


def _launch(
    folder: Path,
    upstream_ca: Path,
    settings: dict[str, Any],
    name: str,
    number: int,
    environ: dict[str, str] | None = None,
) -> RunningProxy:
    config = ProxyConfig(**{"port": 0, "run_port": 0, **settings})
    log = folder / f"{name}-{number}.log"
    arguments = [config.model_dump_json(), str(folder / name), str(folder / "home"), TOKEN]
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**kept, "SSL_CERT_FILE": str(upstream_ca), **(environ or {})},
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    process.stdout.close()
    assert line, log.read_text()
    return RunningProxy(process, folder / name, folder / "home", json.loads(line), log, upstream_ca)


def _end(proxy: RunningProxy) -> None:
    proxy.stop()
    assert "Traceback" not in proxy.log.read_text(), proxy.log.read_text()


@pytest.fixture
def start_proxy(tmp_path: Path, upstream_ca: tuple[Path, Path]) -> Iterator[StartProxy]:
    """Starts proxies: `hosts` are decrypted, the upstreams of these tests are trusted through SSL_CERT_FILE.

    `environ` is added to the environment of the process.
    """
    running: list[RunningProxy] = []

    def start(*hosts: str, name: str = "one", environ: dict[str, str] | None = None, **settings: Any) -> RunningProxy:
        settings = {"hosts": hosts, **settings}
        running.append(_launch(tmp_path, upstream_ca[0], settings, name, len(running), environ))
        return running[-1]

    yield start
    for proxy in running:
        _end(proxy)


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory, upstream_ca: tuple[Path, Path]) -> Iterator[RunningProxy]:
    """One that decrypts localhost on every port, for all tests that need nothing special."""
    running = _launch(tmp_path_factory.mktemp("proxy"), upstream_ca[0], {"hosts": ("localhost",)}, "shared", 0)
    yield running
    _end(running)
