"""Hooks that are nobody else's: WebSockets."""

from __future__ import annotations

import socket
import ssl
import threading

import wsproto
import wsproto.events as ws
from mitmproxy import http, websocket
from wsproto.frame_protocol import Opcode

from stepwell.proxy._addon import StepwellAddon

from .conftest import RunningProxy, eventually


def _pump(peer: ssl.SSLSocket, connection: wsproto.WSConnection, kind: type[ws.Event]) -> ws.Event:
    """Read until an event of that kind."""
    while True:
        for happened in connection.events():
            if isinstance(happened, kind):
                return happened
        connection.receive_data(peer.recv(65536) or None)


def test_sockets_to_a_decrypted_host_are_relayed(proxy: RunningProxy, upstream_ca: tuple[object, object]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(upstream_ca[1]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def echo() -> None:
            raw, _ = server.accept()
            with context.wrap_socket(raw, server_side=True) as peer:
                connection = wsproto.WSConnection(wsproto.ConnectionType.SERVER)
                _pump(peer, connection, ws.Request)
                peer.sendall(connection.send(ws.AcceptConnection()))
                for _ in range(3):
                    said = _pump(peer, connection, ws.TextMessage)
                    assert isinstance(said, ws.TextMessage)
                    peer.sendall(connection.send(ws.TextMessage(data=said.data.upper())))
                peer.recv(1)

        threading.Thread(target=echo, daemon=True).start()
        with socket.create_connection(("127.0.0.1", proxy.ports["port"]), timeout=20) as raw:
            raw.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
            assert b" 200 " in raw.recv(1000)
            with proxy.context.wrap_socket(raw, server_hostname="localhost") as peer:
                client = wsproto.WSConnection(wsproto.ConnectionType.CLIENT)
                peer.sendall(client.send(ws.Request(host=f"localhost:{port}", target="/v1/responses")))
                _pump(peer, client, ws.AcceptConnection)
                for word in ("one", "two", "three"):
                    peer.sendall(client.send(ws.TextMessage(data=word)))
                    answer = _pump(peer, client, ws.TextMessage)
                    assert isinstance(answer, ws.TextMessage) and answer.data == word.upper()
    assert eventually(lambda: proxy.client(proxy.url()).get("http://stepwell.invalid/health").json()["in_flight"] == 0)


def test_messages_of_a_long_socket_do_not_pile_up() -> None:
    from mitmproxy.test import tflow

    flow: http.HTTPFlow = tflow.twebsocketflow()
    assert flow.websocket is not None
    addon = StepwellAddon.__new__(StepwellAddon)
    for number in range(100):
        flow.websocket.messages.append(websocket.WebSocketMessage(Opcode.TEXT, True, str(number).encode()))
        addon.websocket_message(flow)
        assert len(flow.websocket.messages) == 1
    assert flow.websocket.messages[-1].content == b"99"
