from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from stepwell.testing import ChatCall, Reply, ScriptedApp, ScriptedServer

USER: Any = [{"role": "user", "content": "hi"}]


def test_what_a_script_sees(endpoint: Callable[..., Any]) -> None:
    seen: list[ChatCall] = []

    def script(call: ChatCall) -> Reply:
        seen.append(call)
        return Reply("ok")

    at = endpoint(script)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    at.post(model="m", n=2, tools=tools, seed=5, user="me")
    at.post()
    assert [(call.number, call.choice) for call in seen] == [(0, 0), (0, 1), (1, 0)]
    assert (seen[0].messages, seen[0].tools, seen[0].seed, seen[0].body["user"]) == (USER, tools, 5, "me")
    assert seen[0].raw == at.server.calls[0].request
    assert at.server.calls[0].tools == tools


def test_a_script_may_be_a_coroutine(endpoint: Callable[..., Any]) -> None:
    async def script(call: ChatCall) -> Reply:
        await asyncio.sleep(0)
        return Reply("awaited")

    assert endpoint(script).post().json()["choices"][0]["message"]["content"] == "awaited"


def test_any_prefix_and_the_models(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("ok"), models=("policy-a", "policy-b"))
    for path in ("/chat/completions", "/v1/chat/completions", "/openai/deployments/x/chat/completions"):
        assert at.http.post(at.server.url + path, json={"messages": USER}).status_code == 200
    assert [call.path for call in at.server.calls][-1] == "/openai/deployments/x/chat/completions"
    assert [model.id for model in at.openai.models.list()] == ["policy-a", "policy-b"]
    assert at.http.get(at.server.url + "/elsewhere").status_code == 404
    assert at.post().json()["model"] == "policy-a"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{nope", "not JSON"),
        (b"[]", "messages"),
        (b"{}", "messages"),
        (b'{"messages": [1]}', "messages"),
        (b'{"messages": [{"content": "x"}]}', "messages"),
        (b'{"messages": [{"role": "user"}], "n": 0}', "`n` is 0"),
        (b'{"messages": [{"role": "user"}], "n": 1000}', "`n` is 1000"),
        (b'{"messages": [{"role": "user"}], "max_tokens": "x"}', "`max_tokens` is 'x'"),
        (b'{"messages": [{"role": "user", "content": 5}]}', "chat template"),
    ],
)
def test_what_an_engine_refuses(endpoint: Callable[..., Any], body: bytes, says: str) -> None:
    at = endpoint(lambda call: Reply("ok"))
    reply = at.http.post(at.server.base_url + "/chat/completions", content=body)
    assert reply.status_code == 400
    assert says in reply.json()["error"]["message"]
    (logged,) = at.server.calls
    assert (logged.status, logged.choices, logged.request) == (400, [], body)
    assert logged.error == reply.json()["error"]["message"]


async def test_bodies_are_bounded() -> None:
    app = ScriptedApp(lambda call: Reply("ok"), max_body_bytes=100)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi), base_url="http://engine") as client:
        reply = await client.post("/v1/chat/completions", content=b"x" * 101)
    assert reply.status_code == 413


def test_a_script_that_fails_is_answered_and_logged(
    endpoint: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    def script(call: ChatCall) -> Reply:
        raise LookupError("no such line")

    at = endpoint(script)
    with caplog.at_level(logging.ERROR):
        reply = at.post()
    assert reply.status_code == 500
    assert at.server.calls[0].error == "the script failed: LookupError: no such line"
    assert "call 0" in caplog.text


def test_headers_are_logged_as_received(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(lambda call: Reply("ok"), tls=False)
    headers = [("x-first", "1"), ("authorization", "Bearer k"), ("x-twice", "a"), ("x-twice", "b")]
    httpx2.post(server.base_url + "/chat/completions", json={"messages": USER}, headers=headers)
    received = server.calls[0].headers
    assert [pair for pair in received if pair in headers] == headers


async def test_many_requests_of_one_task_in_process() -> None:
    app = ScriptedApp(lambda call: Reply("ok"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app.asgi), base_url="http://engine") as client:
        for _ in range(5):
            assert (await client.post("/v1/chat/completions", json={"messages": USER})).status_code == 200
    assert [call.delivered for call in app.log.snapshot()] == [True] * 5
