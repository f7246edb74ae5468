"""The server as a process: what it prints, logs, and how it ends."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from stepwell.errors import SettingsError
from stepwell.testing import demo_script
from stepwell.testing.__main__ import load_script, main

Spawn = Callable[..., tuple["subprocess.Popen[bytes]", dict[str, Any]]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start the module as a child; it is stopped by its standard input at the latest."""
    children: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        command = [sys.executable, "-W", "error", "-m", "stepwell.testing", *arguments]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        ready: dict[str, Any] = json.loads(child.stdout.readline())
        return child, ready

    yield start
    for child in children:
        if child.poll() is None:
            child.terminate()
        child.communicate(timeout=30)


def test_it_serves_logs_and_stops_on_sigterm(spawn: Spawn, tmp_path: Path) -> None:
    log, ca = tmp_path / "calls.jsonl", tmp_path / "ca.pem"
    child, ready = spawn("--log", str(log), "--ca-out", str(ca), "--weight-version", "w1")
    assert ready["ca"] == str(ca)
    with httpx2.Client(verify=ssl.create_default_context(cafile=ca), http2=True) as client:
        url = f"https://localhost:{ready['port']}/v1/chat/completions"
        reply = client.post(url, json={"messages": [{"role": "user", "content": "hi"}]})
        assert reply.http_version == "HTTP/2"
        # Flushed when the reply is finished, not when the process ends.
        (line,) = [json.loads(line) for line in log.read_text().splitlines()]
        assert (line["call_id"], line["weight_version"]) == (reply.json()["id"], "w1")
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, b"")


def test_it_stops_when_its_standard_input_ends(spawn: Spawn) -> None:
    child, ready = spawn("--plain", "--watch-stdin")
    assert ready["ca"] is None
    assert httpx2.get(f"http://127.0.0.1:{ready['port']}/v1/models").status_code == 200
    _, errors = child.communicate(timeout=30)
    assert (child.returncode, errors) == (0, b"")


def test_a_script_by_name() -> None:
    assert load_script("stepwell.testing:demo_script") is demo_script


@pytest.mark.parametrize(
    "spec", ["stepwell.testing:nothing", "no_such_module:f", "nothing", "", "stepwell.testing:DEMO_TASKS"]
)
def test_a_script_that_is_not_there(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SettingsError, match="script"):
        load_script(spec)
    assert main(["--script", spec]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_sockets_can_be_refused(spawn: Spawn) -> None:
    _, ready = spawn("--plain", "--no-sockets")
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert httpx2.get(f"http://127.0.0.1:{ready['port']}/v1/responses", headers=upgrade).status_code == 426
