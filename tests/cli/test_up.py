"""`stepwell up` for real: proxy, gateway and ingest, a step through them, a process killed, an orderly end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stepwell.home import read_token
from stepwell.spool import ProcessLock

for package in ("lancedb", "mitmproxy", "fastapi"):
    pytest.importorskip(package, reason="the whole stack is not installed")

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class Up:
    """A running `stepwell up` on free ports."""

    process: subprocess.Popen[str]
    log: Path
    ports: dict[str, int] = field(default_factory=dict)

    def ask(self, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {read_token()}", "content-type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['gateway']}/api/v1{path}", content, headers)
        with _DIRECT.open(request, timeout=30) as answer:
            return json.load(answer)

    def children(self) -> dict[str, int]:
        """The process ids of the children, by name (from the system: what is asked here is what really runs)."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and b"--supervised" in words:
                found[words[words.index(b"--supervised") - 1].decode()] = int(folder.name)
        return found


def wait_for(condition: Callable[[], Any]) -> Any:
    while not (found := condition()):
        time.sleep(0.05)
    return found


@pytest.fixture
def start(place: Path) -> Iterator[Callable[[], Up]]:
    running: list[Up] = []

    def begin() -> Up:
        log = place / "log"
        with log.open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "stepwell.cli", "up", "--port", "0", "--run-port", "0", "--gateway-port", "0"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        up = Up(process, log)
        running.append(up)
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"\s+(proxy|gateway)\s+http://127\.0\.0\.1:(\d+)", line):
                up.ports[found[1]] = int(found[2])
            if found := re.match(r"Run an agent:  STEPWELL_PROXY__RUN_PORT=(\d+) stepwell run ", line):
                up.ports["run"] = int(found[1])
            if line.startswith("Ctrl-C"):
                return up
        raise AssertionError(f"stepwell up ended: {log.read_text()}")

    yield begin
    for up in running:
        up.process.kill()
        up.process.wait()
        assert up.process.stdout is not None
        up.process.stdout.close()


STEP = {"step_id": "s1", "messages": [{"role": "user", "content": "hi"}], "response": "hello", "trajectory_id": "t1"}


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_day_in_the_life_of_the_stack(start: Callable[[], Up], stepwell: Callable[..., Any], place: Path) -> None:
    up = start()
    assert up.ask("/health")["status"] == "ok"
    assert up.ask("/steps", STEP)["items"][0]["status"] == "accepted"
    assert stepwell("flush", "--timeout", "60").returncode == 0
    answer = stepwell("query", "select step_id, trajectory_id from steps", "-f", "json")
    assert json.loads(answer.stdout) == [{"step_id": "s1", "trajectory_id": "t1"}]

    environment = os.environ | {"STEPWELL_PROXY__RUN_PORT": str(up.ports["run"])}
    agent = [sys.executable, "-S", "-c", "raise SystemExit(5)"]
    ran = stepwell("run", "--trajectory", "r:1", "--", *agent, env=environment)
    assert ran.returncode == 2
    ran = stepwell("run", "--trajectory", "r/1", "--prompt", "p1", "--split", "eval", "--", *agent, env=environment)
    assert (ran.returncode, ran.stdout) == (5, "")
    assert ran.stderr.startswith("stepwell: no LLM call came through the proxy: ")
    assert stepwell("flush", "--timeout", "60").returncode == 0
    answer = stepwell(
        "query", "select prompt_id, split, state from trajectories where trajectory_id = 'r/1'", "-f", "csv"
    )
    assert answer.stdout.splitlines()[1:] == ["p1,eval,failed"]

    second = stepwell("up", "--port", "0", "--run-port", "0", "--gateway-port", "0")
    assert second.returncode == 2
    assert "already running on the data folder" in second.stderr
    assert len(second.stderr.splitlines()) == 1

    children = up.children()
    assert set(children) == {"proxy", "gateway", "ingest"}
    os.kill(children["gateway"], signal.SIGKILL)
    wait_for(lambda: up.children().get("gateway") not in (None, children["gateway"]))
    wait_for(lambda: healthy(up))  # on the port it had
    assert up.ask("/steps", STEP | {"step_id": "s2"})["items"][0]["status"] == "accepted"

    last = up.children()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(60) == 0
    for pid in last.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    answer = stepwell("query", "select step_id from steps order by step_id", "-f", "csv")
    assert answer.stdout.split() == ["step_id", "s1", "s2"]  # ingest was the last to end
    assert "Traceback" not in up.log.read_text()


def healthy(up: Up) -> bool:
    try:
        return bool(up.ask("/health")["status"] == "ok")
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_after_kill_9_of_the_supervisor_up_again_loses_nothing(
    start: Callable[[], Up], stepwell: Callable[..., Any], place: Path
) -> None:
    first = start()
    for number in range(20):
        first.ask("/steps", STEP | {"step_id": f"s{number}"})
    orphans = first.children()
    first.process.kill()
    first.process.wait()
    again = start()  # while the orphans may still be draining
    assert not set(orphans.values()) & set(again.children().values())
    assert stepwell("flush", "--timeout", "60").returncode == 0
    answer = stepwell("query", "select count(*), count(distinct step_id) from steps", "-f", "csv")
    assert answer.stdout.splitlines()[-1] == "20,20"
    again.process.send_signal(signal.SIGTERM)
    assert again.process.wait(60) == 0
    assert all(not Path(f"/proc/{pid}").exists() for pid in orphans.values())


def test_an_occupied_port_stops_everything_with_one_clear_line(stepwell: Callable[..., Any], place: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = stepwell("up", "--port", "0", "--run-port", "0", "--gateway-port", port, timeout=120)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("stepwell: gateway: ")
    assert port in last
    assert "gateway.port" in last
    lock = ProcessLock(place / "stepwell-data" / "up.lock")
    assert lock.acquire()
    lock.release()


_GIVEN_TO_ANOTHER_THREAD = """
import queue, signal, threading, time
from stepwell.cli import _up
def other():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(60)
wake = queue.SimpleQueue()
_up._stop_on_signals(wake, None)
threading.Thread(target=other, daemon=True).start()
_up._wait(wake)
"""


def test_a_signal_that_another_thread_is_given_stops_it_too() -> None:
    """As it may be when a process that was stopped goes on."""
    done = subprocess.run([sys.executable, "-c", _GIVEN_TO_ANOTHER_THREAD], timeout=30, check=False)
    assert done.returncode == 0
