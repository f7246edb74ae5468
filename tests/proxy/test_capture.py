"""What is recorded of a generation, and that recording never harms it."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from stepwell.exchange import parse
from stepwell.proxy._capture import Capture
from stepwell.spool import Spool, SpoolWriter

from .conftest import (
    REPLY,
    REPLY_BYTES,
    TOKEN,
    RunningProxy,
    StartProxy,
    StartUpstream,
    event,
    eventually,
    plain_answer,
    reply,
    start_stream,
)

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


def test_a_plain_call_is_recorded_as_it_crossed_the_wire(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    client = proxy.client(proxy.url("rollout%2F7"))
    answer = client.post(f"{upstream.url}{PATH}?api-version=1&key=secret", json=ASK)
    assert answer.json() == REPLY
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.trajectory_id == "rollout/7"
    assert exchange.dialect == "openai.chat"
    assert exchange.request.url == f"{upstream.url}{PATH}?api-version=1"
    assert exchange.request.body == upstream.seen[0][3] == answer.request.content
    assert (exchange.response.status, exchange.response.end) == (200, "complete")
    assert exchange.response.body == REPLY_BYTES
    first, end = exchange.response.first_byte_ns, exchange.response.at_ns
    assert first is not None and exchange.request.at_ns < first <= end
    (step,) = parse(exchange)
    assert step.response is not None and step.model == "m"


def test_credentials_are_never_written(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    def with_cookie(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        reply(handler, REPLY_BYTES, set_cookie="sid=SECRET-cookie-set", openai_organization="SECRET-org")

    upstream = start_upstream(with_cookie)
    secret = {
        "authorization": "Bearer SECRET-bearer",
        "api-key": "SECRET-api-key",
        "x-api-key": "SECRET-x-api-key",
        "x-goog-api-key": "SECRET-goog",
        "cookie": "sid=SECRET-cookie",
        "x-unheard-of-token": "SECRET-unheard-of",
    }
    client = proxy.client(proxy.url("t"))
    answer = client.post(f"{upstream.url}{PATH}?key=SECRET-parameter", json=ASK, headers=secret)
    assert answer.headers["set-cookie"] == "sid=SECRET-cookie-set"
    seen = upstream.seen[0][2]
    assert {name: seen[name] for name in secret} == secret  # the upstream gets them all
    assert "proxy-authorization" not in seen
    proxy.exchanges(upstream)
    written = proxy.spool_bytes()
    assert b"SECRET" not in written
    assert TOKEN.encode() not in written


def test_each_event_arrives_while_the_upstream_is_still_writing(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    go_on = threading.Event()

    def two_halves(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler, content_type="application/octet-stream")  # odd, and streamed all the same
        send(event("Grü"))
        assert go_on.wait(20)
        send(event("ße") + b"data: [DONE]\n\n")
        send(b"")

    upstream = start_upstream(two_halves)
    with proxy.client().stream("POST", f"{upstream.url}{PATH}", json={**ASK, "stream": True}) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == event("Grü")
        go_on.set()
        rest = b"".join(pieces)
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.response.body == event("Grü") + rest
    assert exchange.response.end == "complete"


def test_a_client_that_hangs_up_is_recorded_once_with_what_it_was_sent(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    gone = threading.Event()

    def endless(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler)
        try:
            while True:
                send(event("again "))
                gone.wait(0.05)
        finally:
            gone.set()  # the upstream is released, so that it can stop generating

    upstream = start_upstream(endless)
    client = proxy.client(proxy.url("quitter"))
    with client.stream("POST", f"{upstream.url}{PATH}", json={**ASK, "stream": True}) as answer:
        next(answer.iter_raw())
    client.close()
    assert gone.wait(20)
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.end, exchange.response.status) == ("client_disconnect", 200)
    assert exchange.response.body.startswith(event("again "))
    assert exchange.response.error
    assert len(proxy.exchanges(upstream)) == 1


def test_an_upstream_that_breaks_off(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    def breaks(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        start_stream(handler)(event("half"))
        handler.close_connection = True
        handler.connection.close()

    upstream = start_upstream(breaks)
    client = proxy.client()
    with client.stream("POST", f"{upstream.url}{PATH}", json={**ASK, "stream": True}) as answer:
        try:
            received = b"".join(answer.iter_raw())
        except Exception as error:  # noqa: BLE001 — which exception is the client's affair; that there is one is ours
            received = str(error).encode()
        else:
            raise AssertionError(f"a broken answer must not look whole: {received!r}")
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.end, exchange.response.body) == ("upstream_error", event("half"))


def test_an_upstream_that_refuses(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    upstream.close()
    assert proxy.client().post(f"{upstream.url}{PATH}", json=ASK).status_code == 502
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.end, exchange.response.status) == ("upstream_error", None)
    assert exchange.response.body == b""
    assert exchange.response.error


def test_compressed_bodies_pass_and_are_kept_as_they_are(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    squeezed = gzip.compress(REPLY_BYTES)

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        reply(handler, squeezed, content_encoding="gzip")

    upstream = start_upstream(answer)
    ask = gzip.compress(json.dumps(ASK).encode())
    with proxy.client().stream(
        "POST", f"{upstream.url}{PATH}", content=ask, headers={"content-encoding": "gzip"}
    ) as got:
        assert b"".join(got.iter_raw()) == squeezed
        assert got.headers["content-encoding"] == "gzip"
    assert upstream.seen[0][3] == ask
    assert "accept-encoding" not in upstream.seen[0][2]
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.request.body, exchange.response.body) == (ask, squeezed)
    (step,) = parse(exchange)
    assert step.messages == ASK["messages"] or step.messages


def test_other_requests_to_a_decrypted_host_pass_untouched_and_unrecorded(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    squeezed = gzip.compress(b"a list of models" * 100)

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        reply(handler, squeezed, content_encoding="gzip")

    upstream = start_upstream(answer)
    client = proxy.client()
    with client.stream("GET", f"{upstream.url}/v1/models", headers={"accept-encoding": "gzip"}) as got:
        assert b"".join(got.iter_raw()) == squeezed
        assert got.headers["content-encoding"] == "gzip"
    assert upstream.seen[0][2]["accept-encoding"] == "gzip"
    client.post(f"{upstream.url}/v1/embeddings", content=b"x" * 3_000_000)
    assert len(upstream.seen[1][3]) == 3_000_000
    client.post(f"{upstream.url}{PATH}", json=ASK)
    assert len(proxy.exchanges(upstream)) == 1


def test_a_body_larger_than_what_is_kept_passes_whole(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    long = b"\xe2\x82\xac" * 2_000

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler)
        for start in range(0, len(long), 700):
            send(long[start : start + 700])
        send(b"")

    upstream = start_upstream(answer)
    small = start_proxy("localhost", max_body_bytes=1500)
    assert small.client().post(f"{upstream.url}{PATH}", content=long).content == long
    assert upstream.seen[0][3] == long
    (exchange,) = small.exchanges(upstream)
    assert exchange.request.truncated and exchange.response.truncated
    assert (exchange.request.body, exchange.response.body) == (long[:1500], long[:1500])
    assert exchange.response.end == "complete"


def test_a_full_spool_costs_records_and_no_calls(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    tight = start_proxy("localhost", max_spool_bytes=1 << 20)
    client, control = tight.client(), tight.client(tight.url("t"))
    huge = {**ASK, "padding": "x" * (1 << 20)}
    for ask in (huge, huge, ASK):
        assert client.post(f"{upstream.url}{PATH}", json=ask).json() == REPLY

    def lost() -> int:
        return int(control.get("http://stepwell.invalid/health").json()["lost"])

    assert eventually(lambda: lost() == 2)
    (exchange,) = tight.exchanges(upstream)  # only what fits, and no answer without its request
    assert json.loads(exchange.request.body) == ASK
    assert len(tight.records()) == 2
    assert tight.log.read_text().count("unrecorded") == 1  # said once, not once per call


def test_losses_are_counted_for_a_bounded_number_of_trajectories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.proxy._capture._MAX_COUNTED", 3)
    with closing(SpoolWriter(Spool(tmp_path / "p.db"))) as writer:
        capture = Capture(writer, 1)
        for name in ("a", "b", "c", "b", "d"):
            capture.add_lost(name, 1)
        assert [capture.take_lost(name) for name in "abcd"] == [0, 2, 1, 1]
        assert capture.take_lost("b") == 0


def test_twenty_streams_of_one_http2_connection_run_side_by_side(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    together = threading.Barrier(20, timeout=30)

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "POST":
            together.wait()  # nobody is answered before all twenty have arrived
        plain_answer(handler, body)

    upstream = start_upstream(answer)
    client = proxy.client(proxy.url("h2"), http2=True)
    assert (
        client.get(f"{upstream.url}/v1/models").http_version == "HTTP/2"
    )  # from here on they all share this connection
    versions: list[str] = []

    def call() -> None:
        versions.append(client.post(f"{upstream.url}{PATH}", json=ASK).http_version)

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert versions == ["HTTP/2"] * 20
    exchanges = proxy.exchanges(upstream, 20)
    assert len({exchange.id for exchange in exchanges}) == 20
    assert {(e.trajectory_id, e.response.end, e.response.body) for e in exchanges} == {("h2", "complete", REPLY_BYTES)}
