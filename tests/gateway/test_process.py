"""The gateway as it is run: in a process of its own, on real sockets."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.running import started

from stepwell.errors import SettingsError, SpoolError
from stepwell.gateway import GatewayConfig, Tokens, _process, run_gateway
from stepwell.spool import Spool, SpoolReader

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}


@pytest.fixture
def http(token: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False, timeout=20, headers={"authorization": f"Bearer {token}"}) as http:
        yield http


def ids(data: Path) -> list[str]:
    with closing(SpoolReader(data / "spool" / "gateway.db")) as reader:
        return [record.id for record in reader.read(0, limit=10_000)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_and_another_takes_over(tmp_path: Path, token: str, http: httpx2.Client, number: int) -> None:
    process, port = started(tmp_path, token)
    url = f"http://127.0.0.1:{port}/api/v1"
    assert http.post(f"{url}/steps", json={**STEP, "step_id": "a"}).json()["items"][0]["status"] == "accepted"
    assert http.get(f"{url}/steps").status_code == 503  # no warehouse was made yet
    os.kill(process.pid, number)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "put away\n")
    assert ids(tmp_path) == ["step.a"]

    process, same = started(tmp_path, token, port)
    assert same == port
    assert http.post(f"{url}/steps", json={**STEP, "step_id": "a"}).json()["items"][0]["status"] == "duplicate"
    process.kill()
    process.communicate()


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, token: str, http: httpx2.Client) -> None:
    process, port = started(tmp_path, token)
    acknowledged: list[str] = []

    def submit(name: str) -> None:
        with httpx2.Client(trust_env=False, timeout=20, headers=http.headers) as own:
            for number in range(10_000):
                try:
                    answer = own.post(
                        f"http://127.0.0.1:{port}/api/v1/steps", json={**STEP, "step_id": f"{name}{number}"}
                    )
                except httpx2.TransportError:
                    return
                acknowledged.extend(item["id"] for item in answer.json()["items"])

    threads = [threading.Thread(target=submit, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 50:
        threading.Event().wait(0.01)
    process.kill()
    for thread in threads:
        thread.join()
    process.communicate()
    kept = ids(tmp_path)
    assert {f"step.{id}" for id in acknowledged} <= set(kept) and len(kept) == len(set(kept))


def run(config: GatewayConfig, data: Path, token: str = "t") -> None:
    run_gateway(config, data=data, home=data, token=token, warehouse="", storage_options=None, ready=lambda said: None)


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError) as caught:
            run(GatewayConfig(port=port), tmp_path)
    message = str(caught.value)
    assert str(port) in message and "gateway.port" in message and "\n" not in message


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    Tokens(tmp_path).create(["read"])
    with pytest.raises(SettingsError, match=r"cannot listen on 192\.0\.2\.1"):
        run(GatewayConfig(host="192.0.2.1", port=0), tmp_path)
    with pytest.raises(SettingsError):
        run(GatewayConfig(host="no.such.host.invalid", port=0), tmp_path)


def test_no_token_no_gateway(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="token"):
        run(GatewayConfig(port=0), tmp_path, token="")
    with Spool(tmp_path / "spool" / "gateway.db"):
        pass  # it was let go


def test_a_spool_in_use_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_process, "SPOOL_WAIT", 0.1)
    with Spool(tmp_path / "spool" / "gateway.db"), pytest.raises(SpoolError, match="in use"):
        run(GatewayConfig(port=0), tmp_path)


def test_a_body_is_cut_off_while_it_is_read(tmp_path: Path, token: str) -> None:
    """Over a real socket: the answer comes before the body is through, and the connection ends."""
    process, port = started(tmp_path, token)
    head = (
        f"POST /api/v1/steps HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(head.encode())
            sent = 0
            try:
                while sent < 200:
                    connection.sendall(chunk)
                    sent += 1
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert sent < 200
    finally:
        process.kill()
        process.communicate()
    assert ids(tmp_path) == []
