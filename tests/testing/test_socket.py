"""The Responses API over real WebSockets."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from stepwell.testing import ChatCall, Delivery, Reply, ScriptedServer

Serve = Callable[..., ScriptedServer]
CREATE = {"type": "response.create", "model": "m", "input": "hi"}


def opened(server: ScriptedServer) -> ClientConnection:
    return connect(server.url.replace("http", "ws", 1) + "/v1/responses", proxy=None)


def events(socket: ClientConnection, **fields: Any) -> Iterator[dict[str, Any]]:
    """Ask, and give the events up to the last one."""
    socket.send(json.dumps({**CREATE, **fields}))
    while True:
        event = json.loads(socket.recv())
        yield event
        if event["type"] in ("response.completed", "error"):
            return


def text(told: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in told if event["type"] == "response.output_text.delta")


def test_turns_that_continue_each_other(serve: Serve) -> None:
    seen: list[ChatCall] = []

    def script(call: ChatCall) -> Reply:
        seen.append(call)
        return Reply(f"turn {call.turn}")

    server = serve(script, tls=False)
    with opened(server) as socket:
        first = list(events(socket))
        second = list(events(socket, input="more", previous_response_id=first[-1]["response"]["id"]))
    assert [text(first), text(second)] == ["turn 0", "turn 1"]
    assert [message["content"] for message in seen[1].messages] == ["hi", "turn 0", "more"]
    calls = server.calls
    assert [(call.dialect, call.stream, call.delivered) for call in calls] == [("openai.responses", True, True)] * 2
    assert [json.loads(line) for line in calls[1].sent.splitlines()] == second


def test_a_warm_up_asks_nobody(serve: Serve) -> None:
    server = serve(lambda call: Reply(call.messages[0]["content"]), tls=False)
    with opened(server) as socket:
        (*_, warm) = events(socket, generate=False)
        told = list(events(socket, input=[], previous_response_id=warm["response"]["id"]))
    assert warm["response"]["output"] == []
    assert text(told) == "hi"
    assert [len(call.choices) for call in server.calls] == [0, 1]


def test_an_error_leaves_the_socket_open(serve: Serve) -> None:
    replies = [Reply(delivery=Delivery(status=429)), Reply("ok")]
    server = serve(lambda call: replies.pop(0), tls=False)
    with opened(server) as socket:
        assert list(events(socket))[-1]["status"] == 429
        assert list(events(socket, type="session.update"))[-1]["status"] == 400
        assert text(list(events(socket))) == "ok"
    assert [call.status for call in server.calls] == [429, 400, 200]


def test_an_abort_in_the_middle(serve: Serve) -> None:
    server = serve(lambda call: Reply("long " * 50, delivery=Delivery(fail_after=3000, chunk_tokens=1)), tls=False)
    with opened(server) as socket:
        told = events(socket)
        with pytest.raises(ConnectionClosed):
            list(told)
    (call,) = server.wait_for_calls(1)
    assert not call.delivered
    assert 2500 < len(call.sent) <= 3000
    assert call.sent.endswith(b"}\n")


def test_a_client_that_leaves_is_noticed(serve: Serve) -> None:
    server = serve(lambda call: Reply("hi", delivery=Delivery(hold=threading.Event(), hold_after=2)), tls=False)
    with opened(server) as socket:
        next(events(socket))
    (call,) = server.wait_for_calls(1)
    assert not call.delivered
    assert call.choices[0].content == "hi"


def test_sockets_may_be_refused(serve: Serve) -> None:
    server = serve(lambda call: Reply("hi"), tls=False, sockets=False)
    with pytest.raises(InvalidStatus) as raised, opened(server):
        pass
    assert raised.value.response.status_code == 426
