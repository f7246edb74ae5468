"""Hosts that are not ours pass undecrypted."""

from __future__ import annotations

import socket
import ssl
import threading

import httpx2
import pytest

from .conftest import REPLY, RunningProxy, StartUpstream

PATH = "/v1/chat/completions"


def test_the_client_sees_the_upstreams_own_certificate(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    address = f"https://127.0.0.1:{upstream.port}"  # decrypted is localhost only
    own = ssl.create_default_context(cafile=str(proxy.trust))
    assert proxy.client(verify=own).post(f"{address}{PATH}", json={}).json() == REPLY
    with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
        proxy.client().post(f"{address}{PATH}", json={})
    proxy.client().post(f"{upstream.url}{PATH}", json={})
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.request.url == f"{upstream.url}{PATH}"


def test_a_name_in_the_handshake_is_enough_whatever_the_tunnel_is_to(proxy: RunningProxy) -> None:
    """`alias.example` is no host that the certificate authority may vouch for."""
    for host in ("alias.example", "10.1.2.3", "localhost"):
        with socket.create_connection(("127.0.0.1", proxy.ports["port"]), timeout=20) as raw:
            raw.sendall(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
            assert b" 200 " in raw.recv(1000)
            with proxy.context.wrap_socket(raw, server_hostname="localhost") as secure:
                assert dict(secure.getpeercert() or {})["subjectAltName"] == (("DNS", "localhost"),)


def test_a_tunnel_of_something_else_than_tls(proxy: RunningProxy) -> None:
    """What looks like HTTP and is none must pass byte for byte."""
    said = b"GET odd\x00 protocol\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(peer.recv(100)[::-1])

        threading.Thread(target=echo, daemon=True).start()
        with socket.create_connection(("127.0.0.1", proxy.ports["port"]), timeout=20) as raw:
            raw.sendall(f"CONNECT 127.0.0.1:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
            assert b" 200 " in raw.recv(1000)
            raw.sendall(said)
            assert raw.recv(100) == said[::-1]


def test_plain_http_to_other_hosts_streams_both_ways(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream(tls=False)
    address = f"http://127.0.0.1:{upstream.port}"
    answer = proxy.client().post(f"{address}{PATH}", content=iter([b"a" * 1000, b"b" * 1000]))
    assert answer.json() == REPLY
    assert upstream.seen[0][3] == b"a" * 1000 + b"b" * 1000
