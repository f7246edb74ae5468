"""Framing and faults, seen from the client's side of a real connection."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import zlib
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from openai import OpenAI

from stepwell.testing import ChatCall, Delivery, Reply, Script, ScriptedApp, ToolCall
from stepwell.testing._delivery import frame
from stepwell.testing._dialect import Body

TEXT = "Grüße 👋 an alle"
USER: Any = [{"role": "user", "content": "hi"}]


def saying(**delivery: Any) -> Script:
    return lambda call: Reply(TEXT, [ToolCall("f", '{"é": "👋"}', "call_1")], delivery=Delivery(**delivery))


@pytest.mark.parametrize("piece", [1, 2, 3])
@pytest.mark.parametrize("stream", [False, True])
def test_pieces_do_not_change_what_is_said(endpoint: Callable[..., Any], piece: int, stream: bool) -> None:
    at = endpoint(saying(piece=piece))
    with at.http.stream(
        "POST", at.server.base_url + "/chat/completions", json={"messages": USER, "stream": stream}
    ) as reply:
        pieces = list(reply.iter_raw())
    logged = at.server.calls[0]
    assert b"".join(pieces) == logged.sent
    assert logged.delivered
    if at.http2:
        # Over HTTP/2 the client reads DATA frames as they are: each piece came in its own.
        assert {len(part) for part in pieces[:-1]} == {piece}
    calls = at.openai.chat.completions.create(model="m", messages=USER, stream=stream)
    if stream:
        calls = list(calls)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in calls) == TEXT
    else:
        assert calls.choices[0].message.content == TEXT


def test_pieces_are_chunks_of_http_1(serve: Callable[..., Any]) -> None:
    server = serve(saying(piece=3), tls=False)
    body = json.dumps({"messages": USER, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    chunked = received.partition(b"\r\n\r\n")[2]
    sent = server.calls[0].sent
    pieces = [sent[i : i + 3] for i in range(0, len(sent), 3)]
    assert chunked == b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("stream", [False, True])
def test_an_abort_in_the_middle_of_the_body(endpoint: Callable[..., Any], stream: bool) -> None:
    at = endpoint(saying(fail_after=40))
    received = b""
    with (
        pytest.raises(httpx2.TransportError),
        at.http.stream(
            "POST", at.server.base_url + "/chat/completions", json={"messages": USER, "stream": stream}
        ) as reply,
    ):
        assert reply.status_code == 200
        for part in reply.iter_raw():
            received += part
    (logged,) = at.server.wait_for_calls(1)
    assert received == logged.sent
    assert len(received) == 40
    assert not logged.delivered
    assert logged.choices[0].content == TEXT
    at.server.app.script = lambda call: Reply("better")
    assert at.post().json()["choices"][0]["message"]["content"] == "better"


def test_an_abort_reaches_the_sdk_as_a_connection_error(endpoint: Callable[..., Any]) -> None:
    at = endpoint(saying(fail_after=300))
    with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
        list(at.openai.chat.completions.create(model="m", messages=USER, stream=True))


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_error_statuses(endpoint: Callable[..., Any], status: int) -> None:
    at = endpoint(saying(status=status, headers={"Retry-After": "7"}))
    with pytest.raises(openai.APIStatusError) as caught:
        at.openai.chat.completions.create(model="m", messages=USER)
    assert caught.value.status_code == status
    assert caught.value.response.headers["retry-after"] == "7"
    assert set(caught.value.response.json()["error"]) == {"message", "type", "param", "code"}
    (logged,) = at.server.calls
    assert (logged.status, logged.choices, logged.stream) == (status, [], False)


def test_the_sdk_retries_and_each_attempt_is_logged(endpoint: Callable[..., Any]) -> None:
    def flaky(call: ChatCall) -> Reply:
        return Reply(
            "at last", delivery=Delivery(status=503 if call.number < 2 else 200, headers={"retry-after-ms": "1"})
        )

    at = endpoint(flaky)
    client: OpenAI = at.openai.with_options(max_retries=2)
    assert client.chat.completions.create(model="m", messages=USER).choices[0].message.content == "at last"
    assert [call.status for call in at.server.calls] == [503, 503, 200]


def test_a_malformed_body(endpoint: Callable[..., Any]) -> None:
    at = endpoint(saying(malformed=b'{"id": "chatcmpl-\xff'))
    reply = at.post()
    assert (reply.status_code, reply.content) == (200, b'{"id": "chatcmpl-\xff')
    assert at.post(stream=True).headers["content-type"].startswith("text/event-stream")
    assert [call.delivered for call in at.server.calls] == [False, False]
    assert at.server.calls[0].choices[0].content == TEXT


@pytest.mark.parametrize("stream", [False, True])
def test_gzip(endpoint: Callable[..., Any], stream: bool) -> None:
    at = endpoint(saying(gzip=True, piece=5))
    with at.http.stream(
        "POST", at.server.base_url + "/chat/completions", json={"messages": USER, "stream": stream}
    ) as reply:
        raw = b"".join(reply.iter_raw())
    assert reply.headers["content-encoding"] == "gzip"
    assert raw == at.server.calls[0].sent
    text = zlib.decompress(raw, wbits=31).decode()
    assert ("[DONE]" in text) == stream
    assert at.post().json()["choices"][0]["message"]["content"] == TEXT


def test_gzip_flushes_each_event() -> None:
    events = [b"data: one\n\n", b"data: two\n\n", b"data: [DONE]\n\n"]
    inflate = zlib.decompressobj(wbits=31)
    assert [
        inflate.decompress(message) for message in frame(Body(events), Delivery(gzip=True), stream=True).messages
    ] == events
    assert inflate.eof


def test_crlf(endpoint: Callable[..., Any]) -> None:
    at = endpoint(saying(crlf=True))
    body = at.post(stream=True).content
    assert body.count(b"\r\n\r\n") == body.count(b"data: ") > 3
    assert b"\n" not in body.replace(b"\r\n", b"")
    chunks = at.openai.chat.completions.create(model="m", messages=USER, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TEXT


@pytest.mark.parametrize("stream", [False, True])
def test_hold_pauses_until_released(endpoint: Callable[..., Any], stream: bool) -> None:
    hold = threading.Event()
    at = endpoint(saying(hold=hold, hold_after=2))
    body = {"messages": USER, "stream": stream}
    with at.http.stream("POST", at.server.base_url + "/chat/completions", json=body) as reply:
        # The head and, of a stream, two events are here while the call is still under way.
        parts = reply.iter_raw()
        received = b""
        while stream and received.count(b"\n\n") < 2:
            received += next(parts)
        assert at.server.calls == []
        hold.set()
        received += b"".join(parts)
    (logged,) = at.server.calls
    assert received == logged.sent
    assert logged.delivered


def test_a_client_that_leaves_is_noticed(endpoint: Callable[..., Any]) -> None:
    at = endpoint(saying(hold=threading.Event()))
    with at.http.stream(
        "POST", at.server.base_url + "/chat/completions", json={"messages": USER, "stream": True}
    ) as reply:
        first = next(reply.iter_raw())
        at.http.close()
    (logged,) = at.server.wait_for_calls(1)
    assert not logged.delivered
    assert logged.sent == first


def test_stopping_ends_a_held_reply(endpoint: Callable[..., Any]) -> None:
    at = endpoint(saying(hold=threading.Event()))
    with (
        pytest.raises(httpx2.TransportError),
        at.http.stream(
            "POST", at.server.base_url + "/chat/completions", json={"messages": USER, "stream": True}
        ) as reply,
    ):
        parts = reply.iter_raw()
        next(parts)
        at.server.stop()
        next(parts)
    (logged,) = at.server.calls
    assert not logged.delivered


def test_delays_keep_the_bytes(endpoint: Callable[..., Any]) -> None:
    at = endpoint(saying(delay_ms=1, chunk_tokens=20))
    assert at.post(stream=True).content == at.server.calls[0].sent


async def test_in_process_an_abort_is_an_exception() -> None:
    app = ScriptedApp(saying(fail_after=3))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi), base_url="http://engine") as client:
        with pytest.raises(ConnectionAbortedError):
            await asyncio.wait_for(client.post("/v1/chat/completions", json={"messages": USER}), 10)
        app.script = lambda call: Reply("fine")
        reply = await client.post("/v1/chat/completions", json={"messages": USER})
    assert reply.json()["choices"][0]["message"]["content"] == "fine"
    assert [call.delivered for call in app.log.snapshot()] == [False, True]


@pytest.mark.parametrize("wrong", [{"piece": 0}, {"chunk_tokens": 0}, {"piece": -1}])
def test_nonsense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        Delivery(**wrong)  # type: ignore[arg-type]
