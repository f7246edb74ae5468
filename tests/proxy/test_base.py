"""Base URLs: the proxy asked as a server."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx2
import pytest
import wsproto.events as ws
from mitmproxy import connection
from mitmproxy import http as flows
from mitmproxy.test import tflow

from stepwell.exchange import REQUEST
from stepwell.proxy import ProxyConfig
from stepwell.proxy._auth import Gate
from stepwell.proxy._base import ORIGIN, BaseUrls

from .conftest import (
    REPLY,
    REPLY_BYTES,
    TOKEN,
    RunningProxy,
    StartProxy,
    StartUpstream,
    Upstream,
    event,
    eventually,
    reply,
    start_stream,
)
from .sockets import Peer, connected, serving

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


@pytest.fixture
def upstream(start_upstream: StartUpstream) -> Upstream:
    return start_upstream()


@pytest.fixture
def based(start_proxy: StartProxy, upstream: Upstream) -> RunningProxy:
    """Decrypts no host: what comes by a base URL is read all the same."""
    return start_proxy(base_urls={"openai": upstream.url, "under": f"{upstream.url}/some/prefix/"})


def _direct(**options: Any) -> httpx2.Client:
    return httpx2.Client(trust_env=False, timeout=30, **options)


def test_what_follows_the_provider_goes_on_as_it_is(based: RunningProxy, upstream: Upstream) -> None:
    with _direct() as client:
        secret = {"authorization": "Bearer SECRET", "x-api-key": "SECRET"}
        url = f"{based.anonymous}/t/run%2F7/openai{PATH}?api-version=1&key=SECRET"
        answer = client.post(url, json=ASK, headers=secret)
        assert answer.json() == REPLY
        assert client.post(f"{based.anonymous}/openai{PATH}", json=ASK).json() == REPLY
        assert client.post(f"{based.anonymous}/under/x/chat/completions", json=ASK).json() == REPLY
        assert client.get(f"{based.anonymous}/openai?q=1").status_code == 200
    paths = [path for _, path, _, _ in upstream.seen]
    assert paths == [f"{PATH}?api-version=1&key=SECRET", PATH, "/some/prefix/x/chat/completions", "/?q=1"]
    seen = upstream.seen[0][2]
    assert seen["host"] == f"localhost:{upstream.port}"
    assert {name: seen[name] for name in secret} == secret
    first, second, _ = based.exchanges(upstream, 3)
    assert (first.trajectory_id, second.trajectory_id) == ("run/7", None)
    assert first.request.url == f"{upstream.url}{PATH}?api-version=1"
    assert first.response.body == REPLY_BYTES
    assert b"SECRET" not in based.spool_bytes()


def test_an_answer_streams_and_says_where_else_to_go(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    go_on = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "GET":
            reply(handler, b"", status=307, location="/v1/elsewhere")
            return
        send = start_stream(handler)
        send(event("one"))
        assert go_on.wait(20)
        send(event("two"))
        send(b"")

    upstream = start_upstream(answer, tls=False)
    based = start_proxy(base_urls={"openai": upstream.url})
    with _direct() as client:
        assert client.get(f"{based.anonymous}/openai/v1/x").headers["location"] == "/v1/elsewhere"
        with client.stream("POST", f"{based.anonymous}/openai{PATH}", json={**ASK, "stream": True}) as got:
            pieces = got.iter_raw()
            assert next(pieces) == event("one")
            go_on.set()
            assert b"".join(pieces) == event("two")
    (exchange,) = based.exchanges(upstream)
    assert exchange.response.body == event("one") + event("two")


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/openai/v1/responses", "openai.responses"),
        ("/anthropic/v1/messages?beta=true", "anthropic.messages"),
        ("/gemini/v1beta/models/g:generateContent", "gemini"),
        ("/ollama/api/chat", "ollama.chat"),
    ],
)
def test_every_provider_by_the_way_its_client_asks(
    start_proxy: StartProxy, upstream: Upstream, path: str, dialect: str
) -> None:
    based = start_proxy(base_urls=dict.fromkeys(("openai", "anthropic", "gemini", "ollama"), upstream.url))
    with _direct() as client:
        assert client.post(f"{based.anonymous}/t/x{path}", json=ASK).json() == REPLY
    (exchange,) = based.exchanges(upstream)
    assert exchange.dialect == dialect
    assert exchange.request.url == f"{upstream.url}/{path.split('/', 2)[2]}"


def test_a_socket(start_proxy: StartProxy, upstream_ca: tuple[Path, Path]) -> None:
    def model(peer: Peer) -> None:
        assert peer.text() == '{"type":"response.create"}'
        peer.say('{"type":"response.completed"}')
        peer.hear(ws.CloseConnection)

    with serving(model, upstream_ca[1]) as port:
        based = start_proxy(base_urls={"openai": f"https://localhost:{port}"})
        with connected(based, port, "/t/x/openai/v1/responses", direct=True) as peer:
            peer.say('{"type":"response.create"}')
            assert peer.text() == '{"type":"response.completed"}'
    (exchange,) = based.exchanges(port)
    assert exchange.request.url == f"https://localhost:{port}/v1/responses"
    assert (exchange.request.method, exchange.trajectory_id) == ("WEBSOCKET", "x")


def test_routes_apply_afterwards(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    engine = start_upstream(tls=False)
    route = {"host": "api.openai.com", "upstream": engine.url, "engine": "vllm"}
    based = start_proxy(routes=[route])
    with _direct() as client:
        assert client.post(f"{based.anonymous}/t/x/openai{PATH}", json=ASK).json() == REPLY
    assert json.loads(engine.seen[0][3])["return_token_ids"] is True
    requests = [json.loads(record.head) for record in eventually(based.records) if record.kind == REQUEST]
    assert [(head["url"], head["engine"]) for head in requests] == [(f"https://api.openai.com{PATH}", "vllm")]


def test_an_agent_that_has_the_proxy_too(based: RunningProxy, upstream: Upstream) -> None:
    """Its calls to the base URL come by way of the proxy then, with the credentials of the port for `stepwell run`."""
    url = f"{based.anonymous}/openai{PATH}"
    assert based.client().post(url, json=ASK).json() == REPLY
    assert based.client(based.url("claimed")).post(url, json=ASK).json() == REPLY
    named = based.client(based.url("claimed")).post(f"{based.anonymous}/t/named/openai{PATH}", json=ASK)
    assert named.json() == REPLY
    found = [exchange.trajectory_id for exchange in based.exchanges(upstream, 3)]
    assert found == [None, "claimed", "named"]


@pytest.mark.parametrize("path", ["/", "/v1/chat/completions", "/t/x", "/t/x/nobody/v1", "/favicon.ico", "//openai/v1"])
def test_an_unknown_provider_is_told_the_form(based: RunningProxy, upstream: Upstream, path: str) -> None:
    with _direct() as client:
        answer = client.post(based.anonymous + path, json=ASK)
    assert answer.status_code == 404
    assert "/t/<trajectory>/<provider>/" in answer.text and "anthropic, gemini, ollama, openai, under" in answer.text
    assert not upstream.seen


def test_the_port_for_runs_asks_for_credentials(based: RunningProxy, upstream: Upstream) -> None:
    with _direct() as client:
        answer = client.post(f"http://127.0.0.1:{based.ports['run_port']}/openai{PATH}", json=ASK)
    assert answer.status_code == 407
    assert not upstream.seen


def test_by_another_name_the_token_is_needed(based: RunningProxy, upstream: Upstream) -> None:
    """As from a container, or a page in a browser whose name was made to point here."""

    def ask(path: str, host: str) -> int:
        plain = http.client.HTTPConnection("127.0.0.1", based.ports["port"], timeout=30)
        plain.request("POST", path, json.dumps(ASK), {"host": host, "content-type": "application/json"})
        status = plain.getresponse().status
        plain.close()
        return status

    for host in ("evil.example", "host.docker.internal:8789", "[::", "10.0.0.1"):
        assert ask(f"/t/x/openai{PATH}", host) == 403
        assert ask(f"/k/wrong/t/x/openai{PATH}", host) == 403
        assert not upstream.seen
    assert ask(f"/k/wrong/openai{PATH}", "localhost") == 403
    assert ask(f"/openai{PATH}", "localhost:1") == 200
    assert ask(f"/k/{TOKEN}/t/x/openai{PATH}", "host.docker.internal:8789") == 200
    assert upstream.seen[1][1] == PATH
    assert [exchange.trajectory_id for exchange in based.exchanges(upstream, 2)] == [None, "x"]
    assert TOKEN.encode() not in based.spool_bytes()


def test_never_in_a_circle(start_proxy: StartProxy) -> None:
    first = start_proxy(name="first")
    ports = first.ports
    first.stop()
    urls = {"again": f"http://localhost:{ports['port']}", "run": f"http://127.0.0.1:{ports['run_port']}"}
    circle = start_proxy(name="circle", base_urls=urls, **ports)
    with _direct() as client:
        for name in urls:
            assert client.post(f"{circle.anonymous}/{name}{PATH}", json=ASK).status_code == 508
            assert client.post(f"{circle.anonymous}/again/{name}{PATH}", json=ASK).status_code == 508
    assert not circle.records()


# --- without a proxy ----------------------------------------------------------------------------------------------------------------

BASE = BaseUrls(
    {"openai": "https://api.openai.com"}, Gate(TOKEN, host="0.0.0.0", port=1, run_port=2), TOKEN, host="0.0.0.0", port=1
)


def _flow(path: str, interface: str, host: str = "127.0.0.1:1") -> flows.HTTPFlow:
    flow: flows.HTTPFlow = tflow.tflow()
    flow.client_conn = connection.Client(peername=("10.0.0.9", 5), sockname=(interface, 1))
    flow.request.data.host = ORIGIN
    flow.request.headers["host"] = host
    flow.request.path = path
    return flow


def test_on_another_interface_the_token_is_needed() -> None:
    flow = _flow("/t/x/openai/v1", "10.0.0.1")
    assert BASE.enter(flow, asks_for_us=False) is None
    assert flow.response is not None and flow.response.status_code == 403
    entered = BASE.enter(_flow(f"/k/{TOKEN}/t/x/openai/v1", "10.0.0.1"), asks_for_us=False)
    assert entered is not None and entered.trajectory_id == "x"


@pytest.mark.parametrize("name", ["%00", "a%0Ab", "x" * 257])
def test_names_that_cannot_be(name: str) -> None:
    flow = _flow(f"/t/{name}/openai/v1", "127.0.0.1")
    assert BASE.enter(flow, asks_for_us=False) is None
    assert flow.response is not None and flow.response.status_code == 400


def test_other_requests_are_none_of_its_business() -> None:
    flow = _flow("/t/x/openai/v1", "127.0.0.1")
    flow.request.data.host = "api.example.com"
    assert BASE.enter(flow, asks_for_us=False) is None
    assert flow.response is None and flow.request.path == "/t/x/openai/v1"


def test_settings_add_to_the_usual_providers(tmp_path: Path) -> None:
    config = ProxyConfig(base_urls={"vllm": "http://gpu:8000", "openai": "http://other"})
    assert config.base_urls["anthropic"] == "https://api.anthropic.com"
    assert (config.base_urls["vllm"], config.base_urls["openai"]) == ("http://gpu:8000", "http://other")
    for bad in ({"t": "http://x"}, {"k": "http://x"}, {"A b": "http://x"}, {"x": "ftp://x"}, {"x": "http://u:p@x"}):
        with pytest.raises(ValueError, match="base_urls"):
            ProxyConfig(base_urls=bad)
