"""Name constraints: from patterns to names, and what clients make of them."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from mitmproxy import certs

from stepwell.proxy import ProxyConfig, Route, ensure_ca
from stepwell.proxy._ca_names import fits, permitted_names, together

Serve = Callable[..., int]

NAMES = (
    "api.openai.com",
    "*.openai.azure.com",
    "bedrock-runtime.*.amazonaws.com",
    "*-aiplatform.googleapis.com",
    "localhost",
    "127.0.0.1",
)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("api.openai.com", "api.openai.com"),
        ("llm.example:8443", "llm.example"),
        ("*.openai.azure.com", "openai.azure.com"),
        ("api.*.githubcopilot.com", "githubcopilot.com"),
        ("*-aiplatform.googleapis.com", "googleapis.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]:8443", "::1"),
        ("10.0.*", None),
        ("llm*", None),
    ],
)
def test_the_name_below_which_a_pattern_is(pattern: str, name: str | None) -> None:
    assert permitted_names(ProxyConfig(hosts=(pattern,))) == (None if name is None else {name})
    by_route = ProxyConfig(hosts=(), routes=(Route(host=pattern),))
    assert permitted_names(by_route) == permitted_names(ProxyConfig(hosts=(pattern,)))


def test_the_usual_hosts_can_be_named() -> None:
    names = permitted_names(ProxyConfig())
    assert names is not None and "api.anthropic.com" in names and "com" not in names
    assert permitted_names(ProxyConfig(ca_name_constraints=False)) is None


def test_what_fits() -> None:
    has = frozenset({"a.example", "b.example"})
    assert fits(has, frozenset({"x.a.example", "b.example"}))
    assert not fits(has, frozenset({"xa.example"}))
    assert not fits(has, None) and not fits(None, has) and fits(None, None)


def test_what_is_permitted_together() -> None:
    assert together(frozenset({"a.example", "x.b.example"}), frozenset({"b.example"})) == {"a.example", "b.example"}
    assert together(None, frozenset({"c.example"})) == {"c.example"}
    assert together(frozenset(f"{n}.example" for n in range(2000)), frozenset({"c.example"})) == {"c.example"}


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return ensure_ca(tmp_path, ProxyConfig(hosts=NAMES))


@pytest.fixture
def serve(authority: Path, tmp_path: Path) -> Iterator[Serve]:
    """A TLS server with the certificate that mitmproxy makes for these names; its port."""
    store = certs.CertStore.from_store(authority.parent, "mitmproxy", 2048)
    opened: list[socket.socket] = []

    def start(*names: str) -> int:
        entry = store.get_cert(names[0], [_general(name) for name in names], None)
        key, chain = tmp_path / "leaf-key.pem", tmp_path / "leaf.pem"
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        key.write_bytes(entry.privatekey.private_bytes(*form))
        chain.write_bytes(entry.cert.to_pem())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        opened.append(server := socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=_answer, args=(server, context), daemon=True).start()
        return int(server.getsockname()[1])

    yield start
    for server in opened:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def _answer(server: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        try:
            with context.wrap_socket(client, server_side=True) as secure:
                secure.recv(65536)
                secure.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        except OSError:
            client.close()


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _python(authority: Path, host: str, port: int) -> bool:
    context = ssl.create_default_context(cafile=str(authority))
    try:
        with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain, server_hostname=host):
            return True
    except ssl.SSLCertVerificationError as error:
        assert "permitted subtree violation" in str(error)
        return False


def _curl(authority: Path, host: str, port: int) -> bool:
    to = ["--connect-to", f"{host}:443:127.0.0.1:{port}", f"https://{host}/"]
    done = subprocess.run(["curl", "-sS", "--noproxy", "*", "--cacert", authority, *to], capture_output=True, text=True)
    return done.stdout == "ok"


_NODE = """
const [port, host] = process.argv.slice(1)
const named = /^[\\d.]+$/.test(host) ? undefined : host
const tls = require('tls')
const options = {host: '127.0.0.1', port: +port, servername: named, checkServerIdentity: (_, c) => tls.checkServerIdentity(host, c)}
const socket = tls.connect(options, () => { console.log('ok'); socket.end() })
socket.on('error', error => console.log(error.message))
"""


def _node(authority: Path, host: str, port: int) -> bool:
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(authority)}
    done = subprocess.run(["node", "-e", _NODE, str(port), host], capture_output=True, text=True, env=environment)
    return done.stdout == "ok\n"


@pytest.mark.parametrize("client", [_python, _curl, _node])
def test_clients_take_what_is_permitted_and_nothing_else(
    serve: Serve, authority: Path, client: Callable[..., bool]
) -> None:
    if client is not _python and shutil.which(client.__name__.strip("_")) is None:
        pytest.skip(f"no {client.__name__.strip('_')} here")
    good = (
        "my.openai.azure.com",
        "bedrock-runtime.eu-west-1.amazonaws.com",
        "us-aiplatform.googleapis.com",
        "127.0.0.1",
    )
    assert [client(authority, host, serve(host)) for host in good] == [True] * len(good)
    # As mitmproxy does where a client asks for an address and names the host in its handshake.
    assert client(authority, "api.openai.com", serve("api.openai.com", "10.1.2.3"))
    for bad in ("bank.example", "openai.azure.com.evil.example", "notapi.openai.com"):
        assert not client(authority, bad, serve(bad))


def test_requests_take_it(serve: Serve, authority: Path) -> None:
    assert requests.get(f"https://localhost:{serve('localhost')}/", verify=str(authority), timeout=20).text == "ok"
