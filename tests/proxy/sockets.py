"""Both ends of a WebSocket, for tests: a server on a free port, and a client behind the proxy."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import wsproto
import wsproto.events as ws
from wsproto.extensions import PerMessageDeflate

from .conftest import RunningProxy


class Peer:
    """One end. What it reads are whole text messages, and the events that were asked for."""

    def __init__(self, wire: socket.socket, kind: wsproto.ConnectionType) -> None:
        self.wire = wire
        self.protocol = wsproto.WSConnection(kind)

    def send(self, event: ws.Event) -> None:
        self.wire.sendall(self.protocol.send(event))

    def say(self, text: str | bytes, pieces: int = 1) -> None:
        """A message, in one frame or several."""
        size = -(-len(text) // pieces)
        for start in range(0, len(text), size):
            data, last = text[start : start + size], start + size >= len(text)
            message = ws.TextMessage if isinstance(data, str) else ws.BytesMessage
            self.send(message(data=data, message_finished=last))  # type: ignore[arg-type]

    def hear(self, kind: type[ws.Event]) -> ws.Event:
        """The next event of that kind; others are passed over."""
        while True:
            for event in self.protocol.events():
                if isinstance(event, kind):
                    return event
            self.protocol.receive_data(self.wire.recv(65536) or None)

    def text(self) -> str:
        """The next whole text message."""
        pieces = ""
        while True:
            event = self.hear(ws.TextMessage)
            assert isinstance(event, ws.TextMessage)
            pieces += event.data
            if event.message_finished:
                return pieces


@contextmanager
def serving(answer: Callable[[Peer], None], certificate: Path, *, deflate: bool = False) -> Iterator[int]:
    """A server for one client on the port it gives; `answer` talks to the client in a thread."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(certificate))
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                raw, _ = server.accept()
                with context.wrap_socket(raw, server_side=True) as wire:
                    peer = Peer(wire, wsproto.ConnectionType.SERVER)
                    peer.hear(ws.Request)
                    peer.send(ws.AcceptConnection(extensions=[PerMessageDeflate()] if deflate else []))
                    answer(peer)
            except BaseException as error:  # noqa: BLE001 — shown in the test's own thread
                failures.append(error)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(20)
        assert not failures, failures


@contextmanager
def connected(
    proxy: RunningProxy,
    port: int,
    path: str = "/v1/responses",
    *,
    user: str = "",
    direct: bool = False,
    deflate: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    subprotocols: tuple[str, ...] = (),
) -> Iterator[Peer]:
    """A client's end of a socket through the proxy, its upgrade done; `direct`: of one to the proxy itself."""
    number = proxy.ports["run_port" if user else "port"]
    with ExitStack() as stack:
        wire = stack.enter_context(socket.create_connection(("127.0.0.1", number), timeout=20))
        if not direct:
            credentials = f"Proxy-Authorization: Basic {user}\r\n" if user else ""
            wire.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\n{credentials}\r\n".encode())
            assert b" 200 " in wire.recv(1000)
            wire = stack.enter_context(proxy.context.wrap_socket(wire, server_hostname="localhost"))
        peer = Peer(wire, wsproto.ConnectionType.CLIENT)
        request = ws.Request(
            host=f"localhost:{number if direct else port}",
            target=path,
            extensions=[PerMessageDeflate()] if deflate else [],
            extra_headers=list(headers),
            subprotocols=list(subprotocols),
        )
        peer.send(request)
        peer.hear(ws.AcceptConnection)
        yield peer
        if isinstance(wire, ssl.SSLSocket):
            with contextlib.suppress(OSError):
                wire.unwrap()
