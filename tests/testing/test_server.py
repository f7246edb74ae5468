from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from stepwell.errors import SettingsError
from stepwell.testing import ChatCall, Reply, ScriptedServer


def test_it_listens_inside_and_is_gone_after() -> None:
    before = set(threading.enumerate())
    with ScriptedServer(lambda call: Reply("ok")) as server:
        ca_file = server.ca_file
        assert ca_file.read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
        assert b"PRIVATE" not in b"".join(path.read_bytes() for path in ca_file.parent.iterdir())
        socket.create_connection(("127.0.0.1", server.port)).close()
    assert not ca_file.parent.exists()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", server.port))
    assert "scripted-llm" not in {thread.name for thread in set(threading.enumerate()) - before}
    server.stop()


def test_only_the_loopback_address_is_bound(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(lambda call: Reply("ok"), tls=False)
    with socket.socket() as elsewhere:
        assert elsewhere.connect_ex(("127.0.0.2", server.port)) != 0


@pytest.mark.parametrize("http2", [False, True])
def test_idle_clients_do_not_hold_it_up(http2: bool) -> None:
    server = ScriptedServer(lambda call: Reply("ok")).start()
    with httpx2.Client(verify=server.client_context(), http2=http2) as client:
        assert client.get(server.base_url + "/models").status_code == 200
        server.stop()
        with pytest.raises(httpx2.TransportError):
            client.get(server.base_url + "/models")


def test_a_port_that_is_taken(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(lambda call: Reply("ok"))
    with pytest.raises(SettingsError, match="choose another port"):
        serve(lambda call: Reply("ok"), port=server.port)
    with pytest.raises(SettingsError, match="running already"):
        server.start()


def test_plain_http_has_no_authority(serve: Callable[..., ScriptedServer]) -> None:
    server = serve(lambda call: Reply("ok"), tls=False)
    assert server.base_url == f"http://127.0.0.1:{server.port}/v1"
    with pytest.raises(SettingsError, match="no CA file"):
        server.ca_file  # noqa: B018 - the access is what is tested


def test_many_clients_at_once(endpoint: Callable[..., Any]) -> None:
    def script(call: ChatCall) -> Reply:
        return Reply(f"echo {call.messages[0]['content']}")

    at = endpoint(script)

    def ask(numbers: range) -> set[int]:
        # Each with a connection of its own: threads that share one get in each other's way inside httpcore.
        with at.client() as http:
            own = replace(at, http=http)
            says = [
                {"messages": [{"role": "user", "content": f"{number}"}], "stream": number % 2 == 0}
                for number in numbers
            ]
            return {own.post(**said).status_code for said in says}

    with ThreadPoolExecutor(8) as pool:
        assert set.union(*pool.map(ask, [range(start, 64, 8) for start in range(8)])) == {200}
    calls = at.server.calls
    assert sorted(call.number for call in calls) == list(range(64))
    assert len({call.call_id for call in calls}) == 64
    assert {choice.content for call in calls for choice in call.choices} == {f"echo {i}" for i in range(64)}
    assert {call.http_version for call in calls} == {"2" if at.http2 else "1.1"}


def test_a_big_conversation_over_flow_control(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("y" * 300_000))
    big = [{"role": "user", "content": "x" * 1_000_000}]
    assert at.post(messages=big).json()["choices"][0]["message"]["content"] == "y" * 300_000
    assert len(at.server.calls[0].prompt_ids) > 1_000_000
