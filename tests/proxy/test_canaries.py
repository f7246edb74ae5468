"""A secret through every channel there is, and none of them on disk, in the log or at the upstream when it was for us."""

from __future__ import annotations

import base64
import json
import socket
import uuid
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx2
import wsproto.events as ws
from wsproto.utilities import RemoteProtocolError

from .conftest import REPLY_BYTES, TOKEN, RunningProxy, StartProxy, StartUpstream, reply
from .office import PASSWORD, USER, tunnels
from .sockets import Peer, connected, serving

PATH = "/v1/chat/completions"
IN_HEADERS = (
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "x-amz-security-token",
    "x-stainless-auth-token",
    "x-stepwell-secret",
    "x-stepwell-meta-api-key",
    "x-made-up-by-somebody",
)


class Canaries:
    """Makes secrets that can be found again, in every form they may be written in."""

    def __init__(self) -> None:
        self.made: list[bytes] = [TOKEN.encode(), b"SECRET"]

    def __call__(self) -> str:
        made = f"sk-canary-{uuid.uuid4().hex}"
        self.made.append(made[10:].encode())
        return made

    def basic(self, user: str, password: str) -> str:
        encoded = base64.b64encode(f"{user}:{password}".encode())
        self.made.append(encoded)
        return encoded.decode()

    def in_files(self, *folders: Path) -> list[tuple[str, bytes]]:
        files = [path for folder in folders for path in [folder, *folder.rglob("*")] if path.is_file()]
        assert any(path.name.endswith("-wal") for path in files)
        return [(path.name, secret) for path in files for secret in self.made if secret in path.read_bytes()]


def test_no_secret_is_written(
    start_proxy: StartProxy, start_upstream: StartUpstream, upstream_ca: tuple[Path, Path]
) -> None:
    secret = Canaries()

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        unlucky = json.loads(body).get("unlucky", False)
        reply(handler, REPLY_BYTES, 401 if unlucky else 200, set_cookie=f"s={secret()}", www_authenticate=secret())

    upstream = start_upstream(answer)
    secret.basic(USER, "p@ss SECRET")
    with tunnels() as office:
        office_url = f"http://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{office.port}"
        proxy = start_proxy("localhost", "far.example", base_urls={"here": upstream.url}, upstream_proxy=office_url)
        _over_http(proxy, upstream.url, secret)
        _by_base_url(proxy, secret)
        _over_sockets(proxy, upstream_ca[1], secret)
        _by_mistake(proxy, secret)
        proxy.client().get("https://far.example:9/?key=" + secret())
    assert len(proxy.exchanges(upstream, 6)) == 6
    seen = json.dumps([headers for _, _, headers, _ in upstream.seen])
    assert TOKEN not in seen and "stepwell" not in seen and "proxy-authorization" not in seen
    assert len(secret.made) > 40
    assert secret.in_files(proxy.data, proxy.log) == []
    assert b"kept" in proxy.spool_bytes()  # the search finds what is there


def _ask(secret: Canaries, **more: object) -> tuple[dict[str, object], dict[str, str]]:
    return {"messages": [], "said": "kept", **more}, {name: secret() for name in IN_HEADERS}


def _over_http(proxy: RunningProxy, url: str, secret: Canaries) -> None:
    secret.basic("rollout", TOKEN)
    for http2 in (False, True):
        for unlucky in (False, True):
            body, headers = _ask(secret, unlucky=unlucky)
            client = proxy.client(proxy.url("rollout"), http2=http2)
            client.post(f"{url}{PATH}?key={secret()}&access_token={secret()}", json=body, headers=headers)


def _by_base_url(proxy: RunningProxy, secret: Canaries) -> None:
    for path in (f"/t/x/here{PATH}", f"/k/{TOKEN}/t/x/here{PATH}", f"/k/{secret()}/here{PATH}", f"/k/{TOKEN}/nobody"):
        body, headers = _ask(secret)
        httpx2.post(f"{proxy.anonymous}{path}?key={secret()}", json=body, headers=headers, trust_env=False)


def _over_sockets(proxy: RunningProxy, certificate: Path, secret: Canaries) -> None:
    def model(peer: Peer) -> None:
        peer.text()
        peer.say('{"type":"response.completed"}')
        with suppress(OSError, RemoteProtocolError):
            peer.hear(ws.CloseConnection)

    headers = tuple((name.encode(), secret().encode()) for name in IN_HEADERS)
    protocols = ("realtime", f"openai-insecure-api-key.{secret()}", f"openai-organization.{secret()}")
    path = f"/v1/responses?key={secret()}"
    with (
        serving(model, certificate) as port,
        connected(proxy, port, path, headers=headers, subprotocols=protocols) as peer,
    ):
        peer.say('{"type":"response.create"}')
        assert peer.text()
    assert len(proxy.exchanges(port)) == 1


def _by_mistake(proxy: RunningProxy, secret: Canaries) -> None:
    """Credentials where they do not belong, and heads that are none."""
    wrong = secret.basic("someone", secret())
    heads = [
        f"GET http://localhost:1/ HTTP/1.1\r\nProxy-Authorization: Basic {wrong}\r\n\r\n",
        f"CONNECT user:{secret()}@localhost:1 HTTP/1.1\r\n\r\n",
        f"POST http://user:{secret()}@localhost:1{PATH} HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}",
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization {secret()}\r\n\r\n",
        f"{secret()}\r\n\r\n",
        f"GET http://localhost:1/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\ncookie: {secret()}\r\n\r\n",
    ]
    for head in heads:
        for number in proxy.ports.values():
            with socket.create_connection(("127.0.0.1", number), timeout=20) as raw, suppress(OSError):
                raw.sendall(head.encode())
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(65536):
                    pass
