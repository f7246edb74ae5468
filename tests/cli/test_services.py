"""One process alone, in the foreground."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_RUNNERS = {"proxy": "mitmproxy", "gateway": "fastapi", "ingest": "lancedb"}


@pytest.mark.parametrize(
    ("name", "options"), [("proxy", ["--port", "0", "--run-port", "0"]), ("gateway", ["--port", "0"]), ("ingest", [])]
)
def test_it_says_ready_and_ends_with_0_on_sigterm(name: str, options: list[str], place: Path) -> None:
    pytest.importorskip(_RUNNERS[name], reason=f"the packages of {name} are not installed")
    command = [sys.executable, "-m", "stepwell.cli", name, *options, "--data", "elsewhere"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        seen = ""
        while f"{name} is ready" not in seen:
            line = process.stderr.readline()
            assert line, seen
            seen += line
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in seen + error
    assert (place / "elsewhere").is_dir()


def test_an_occupied_port_is_one_line_and_2(stepwell: Callable[..., Any]) -> None:
    pytest.importorskip("mitmproxy", reason="the packages of the proxy are not installed")
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = stepwell("proxy", "--port", port, "--run-port", "0")
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("stepwell: ")
    assert port in last
    assert "proxy.port" in last
    assert "Traceback" not in done.stderr


def test_a_store_that_cannot_be_reached_is_one_line_and_2(
    stepwell: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")
    monkeypatch.setenv("STEPWELL_STORE__ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    done = stepwell("ingest", "--warehouse", "s3://bucket/prefix", timeout=120)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("stepwell: ")
    assert "Traceback" not in done.stderr
