"""Faults of the wire that others have reported, at a proxy in a process of its own: what passes, and what is kept of it."""

from __future__ import annotations

import gzip
import json
import threading
import zlib
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import brotli
import pytest
import zstandard

from stepwell.exchange import Unparseable, parse

from .conftest import REPLY_BYTES, RunningProxy, StartProxy, StartUpstream, event, reply, start_stream
from .test_sockets import CREATE, CREATED, DELTA, DONE, Bench

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"
STREAM = event("Grüße 👋") + event(" aus 東京" * 50) + b"data: [DONE]\n\n"


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def brotli_bytes(body: bytes) -> bytes:
    packed: bytes = brotli.compress(body, quality=3)
    return packed


Pack = Callable[[bytes], bytes]
CODINGS: dict[str, tuple[str, Pack]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip of several members": ("gzip", lambda body: gzip.compress(body[:99]) + gzip.compress(body[99:])),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", brotli_bytes),
    "zstd": ("zstd", zstandard.compress),
    "two": ("gzip, zstd", lambda body: zstandard.compress(gzip.compress(body))),
}


@pytest.mark.parametrize("name", CODINGS)
@pytest.mark.parametrize("cut", [False, True])
def test_a_coded_stream_passes_as_it_is_and_is_read(
    proxy: RunningProxy, start_upstream: StartUpstream, name: str, cut: bool
) -> None:
    coding, pack = CODINGS[name]
    packed = pack(STREAM)
    sent = packed[: len(packed) // 2] if cut else packed

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler, content_encoding=coding)
        for start in range(0, len(sent), 7):
            send(sent[start : start + 7])
        if cut:
            handler.close_connection = True
            handler.connection.close()
        else:
            send(b"")

    upstream = start_upstream(answer)
    received = b""
    with proxy.client().stream("POST", f"{upstream.url}{PATH}", json={**ASK, "stream": True}) as got:
        assert got.headers["content-encoding"] == coding
        try:
            for piece in got.iter_raw():
                received += piece
        except Exception:  # noqa: BLE001 — which exception is the client's affair
            assert cut
        else:
            assert not cut
    assert received == sent
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.body, exchange.response.end) == (sent, "upstream_error" if cut else "complete")
    (step,) = parse(exchange)
    assert step.response is not None
    text = "".join(part["text"] for part in step.response["content"])
    whole = "Grüße 👋" + " aus 東京" * 50
    assert (
        (whole.startswith(text), step.status) == (True, "truncated")
        if cut
        else (text == whole, step.status) == (True, "ok")
    )
    assert not step.trainable


def bomb(body: bytes) -> bytes:
    return zstandard.compress(body + b" " * (70 << 20))


REQUESTS: dict[str, tuple[str, Pack, bool]] = {
    **{name: (*coded, True) for name, coded in CODINGS.items()},
    "corrupt": ("zstd", lambda body: zstandard.compress(body)[:5] + b"\xff" * 40, False),
    "cut": ("gzip", lambda body: gzip.compress(body)[:30], False),
    "not coded at all": ("zstd", lambda body: body, False),
    "another coding": ("sdch", lambda body: body, False),
    "bomb": ("zstd", bomb, True),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_coded_request_is_forwarded_byte_for_byte(
    proxy: RunningProxy, start_upstream: StartUpstream, name: str
) -> None:
    coding, pack, readable = REQUESTS[name]
    packed = pack(json.dumps(ASK).encode())
    upstream = start_upstream()
    answer = proxy.client().post(f"{upstream.url}{PATH}", content=packed, headers={"content-encoding": coding})
    assert (answer.status_code, answer.content) == (200, REPLY_BYTES)
    assert (upstream.seen[0][3], upstream.seen[0][2]["content-encoding"]) == (packed, coding)
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.request.body == packed
    if readable:
        (step,) = parse(exchange)
        assert step.messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    else:
        with pytest.raises(Unparseable, match="the request"):
            parse(exchange)


@pytest.mark.parametrize("name", REQUESTS)
def test_an_engine_is_never_kept_from_its_request(
    engine_proxy: RunningProxy, start_upstream: StartUpstream, name: str
) -> None:
    """A route adds to what it can read; what it cannot, goes on as it came."""
    coding, pack, readable = REQUESTS[name]
    packed = pack(json.dumps(ASK).encode())
    upstream = start_upstream()
    answer = engine_proxy.client().post(f"{upstream.url}{PATH}", content=packed, headers={"content-encoding": coding})
    assert (answer.status_code, answer.content) == (200, REPLY_BYTES)
    _, _, headers, body = upstream.seen[0]
    if readable and name != "bomb":
        assert "content-encoding" not in headers
        assert json.loads(body).items() > ASK.items()
    else:
        assert (body, headers["content-encoding"]) == (packed, coding)


@pytest.fixture
def engine_proxy(start_proxy: StartProxy) -> RunningProxy:
    return start_proxy("localhost", routes=({"host": "localhost", "engine": "vllm"},))


PATHS = [
    PATH,
    "/v1/responses",
    "/v1/completions",
    "/v1/messages",
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    "/api/chat",
    "/model/anthropic.m/converse-stream",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ["application/json", "text/html; charset=latin-1", "application/octet-stream", ";;"])
def test_the_first_byte_passes_while_the_upstream_is_held(
    proxy: RunningProxy, start_upstream: StartUpstream, path: str, kind: str
) -> None:
    """Whatever the answer calls itself: the upstream goes on only once the client has what came first."""
    go_on = threading.Event()

    def held(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler, content_type=kind)
        send(b"\xf0")
        assert go_on.wait(20)
        send(b"\x9f")
        send(b"")

    upstream = start_upstream(held)
    with proxy.client().stream("POST", f"{upstream.url}{path}", json=ASK) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == b"\xf0"
        go_on.set()
        assert b"".join(pieces) == b"\x9f"
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.body, exchange.response.end) == (b"\xf0\x9f", "complete")


@pytest.mark.parametrize("status", [400, 403, 404, 405, 426, 501])
def test_a_refused_upgrade_and_its_way_back_are_one_call(
    proxy: RunningProxy, start_upstream: StartUpstream, status: int
) -> None:
    """However often the client tries."""

    def no_sockets(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "GET":
            reply(handler, b"no", status=status)
        else:
            reply(handler, b'{"id": "r", "object": "response", "status": "completed", "output": []}')

    upstream = start_upstream(no_sockets)
    client, url = proxy.client(), f"{upstream.url}/v1/responses"
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "k"}
    for _ in range(5):
        answer = client.get(url, headers=upgrade)
        assert (answer.status_code, answer.content) == (status, b"no")
    assert client.post(url, json={"model": "m", "input": "hi"}).status_code == 200
    client.post(url, json={"model": "m", "input": "end"})
    first, second = proxy.exchanges(upstream, 2)
    assert [json.loads(exchange.request.body)["input"] for exchange in (first, second)] == ["hi", "end"]
    (step,) = parse(first)
    assert step.call_id == first.id


def test_ten_thousand_frames_leave_nothing_behind(tmp_path: Path) -> None:
    """Of a socket whose turns are recorded nothing stays but the turn in flight, and that is bounded."""
    bench = Bench(tmp_path, limit=10_000)
    with closing(bench.writer):
        for _ in range(50):
            bench.say(CREATE, client=True)
            bench.say(CREATED)
            for _ in range(198):
                bench.say(DELTA)
            assert len(bench.flows) == 1
            bench.say(DONE)
            bench.say(b"\x00" * 1000)
            assert len(bench.flows) == 0
        exchanges = bench.exchanges()
    assert len(exchanges) == 50
    assert {len(exchange.response.body) for exchange in exchanges} == {10_000}


def test_ten_thousand_frames_of_a_socket_that_is_not_recorded(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.flow.metadata.clear()
    with closing(bench.writer):
        for number in range(10_000):
            bench.say(DELTA if number % 2 else b"\x00" * 1000, client=number % 3 == 0)  # each time nothing is left
        assert bench.exchanges() == []
    assert len(bench.flows) == 0
