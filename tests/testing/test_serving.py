"""Connections that are not as they should be, when the server stops and before."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import threading
from collections.abc import Callable

import httpx2
import pytest

from stepwell.testing import ChatCall, Reply, ScriptedServer


def ok(call: ChatCall) -> Reply:
    return Reply("ok")


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("opening", [b"", b"\x16\x03\x01", b"GET /v1/models HTTP/1.1\r\n", b"nonsense\r\n\r\n"])
def test_clients_in_mid_sentence_do_not_hold_it_up(tls: bool, opening: bytes) -> None:
    server = ScriptedServer(ok, tls=tls).start()
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.sendall(opening)
        server.stop()
    # A transport left open says so when it is collected, and here warnings are errors.
    gc.collect()


@pytest.mark.parametrize("tls", [False, True])
def test_clients_that_hang_up_are_forgotten(
    serve: Callable[..., ScriptedServer], tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        server = serve(ok, tls=tls)
        for opening in (b"", b"nonsense\r\n\r\n", b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 9\r\n\r\n{"):
            with socket.create_connection(("127.0.0.1", server.port)) as client:
                client.sendall(opening)
        with httpx2.Client(verify=server.client_context() if tls else False) as client:
            assert client.get(server.base_url + "/models").status_code == 200
    assert [record for record in caplog.records if record.name.startswith(("stepwell", "asyncio"))] == []


def test_a_script_that_never_answers_is_cancelled() -> None:
    asked, cancelled = threading.Event(), threading.Event()

    async def script(call: ChatCall) -> Reply:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return Reply("never")

    server = ScriptedServer(script, tls=False).start()
    body = (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 40\r\n\r\n"
        + b'{"messages": [{"role": "user"}]}'.ljust(40)
    )
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(body)
        assert asked.wait(10)
        server.stop()
        assert client.recv(1) == b""
    assert cancelled.is_set()
