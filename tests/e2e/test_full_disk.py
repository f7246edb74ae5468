"""The disk of the spools is full: agents' calls go on, what cannot be kept is counted and shown, and room makes all well again."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import psutil  # type: ignore[import-untyped]
import pytest

from stepwell.proxy import CONTROL_HOST
from stepwell.testing import Reply
from stepwell.warehouse import Warehouse

from .conftest import Installation, Up, eventually

SIZE = 24 << 20
"""Of the disk. The spool leaves sixteen megabytes of it free."""
CALLS = 4
pytestmark = pytest.mark.timeout(400)

STEP = {
    "step_id": "posted",
    "trajectory_id": "posted",
    "messages": [{"role": "user", "content": "q"}],
    "response": "ja",
}

Full = Callable[[Installation, Up], AbstractContextManager[None]]


@contextmanager
def last_byte_taken(installation: Installation, up: Up) -> Iterator[None]:
    """Somebody else's file fills the disk."""
    other = installation.data / "spool" / "somebody-elses"
    with other.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        for _ in range(SIZE):
            file.write(bytes(1 << 16))
    yield
    other.unlink()


@contextmanager
def no_more_to_a_file(installation: Installation, up: Up) -> Iterator[None]:
    """A quota: the disk has room, and no write gets any of it. SQLite learns of it in the middle of a transaction."""
    children = [up.children()[name] for name in ("proxy", "gateway")]
    for child in children:
        child.rlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
    yield
    for child in children:
        child.rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture
def small_disk(installation: Installation) -> Iterator[Path]:
    """The folder of the spools, as a disk of its own."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small disk")
    folder = installation.data / "spool"
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.decode().strip()}")
    yield folder
    for up in installation.running:
        up.stop_at_once()
    subprocess.run(["umount", "--lazy", str(folder)], check=True)  # their last files may be open for a moment yet


class Agent:
    """Calls as one trajectory, which it opens and ends; each call gets its answer."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.openai = installation.openai("agent")
        url = f"http://{quote('agent')}:{installation.token}@127.0.0.1:{installation.run_port}"
        self.control = installation.clients.enter_context(httpx2.Client(proxy=url, trust_env=False))
        self.say("/trajectories", "open")

    def say(self, path: str, state: str) -> None:
        document = {"trajectory_id": "agent", "state": state}
        answer = self.control.post(f"http://{CONTROL_HOST}{path}", json=document)
        assert answer.status_code == 200, answer.text

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = self.control.get(f"http://{CONTROL_HOST}/health").json()
        return found

    def call(self, count: int) -> list[str]:
        """Ids of so many answers; returns when the proxy has recorded them, or has not."""
        said: Any = [{"role": "user", "content": "hallo"}]
        answers = [self.openai.chat.completions.create(model="m", messages=said) for _ in range(count)]
        assert [answer.choices[0].message.content for answer in answers] == ["Grüße 👋"] * count
        eventually(lambda: (now := self.health())["in_flight"] == 0 == now["pending"], "the proxy is idle")
        return [answer.id for answer in answers]


def lost_in_metrics(installation: Installation) -> float:
    """Of the proxy, as Prometheus is told."""
    text = httpx2.get(f"{installation.gateway}/metrics", trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith('stepwell_spool_lost_total{producer="proxy-')]
    return float(lines[0].split()[1]) if lines else 0.0


def post(installation: Installation) -> httpx2.Response:
    headers = {"authorization": f"Bearer {installation.token}"}
    return httpx2.post(f"{installation.gateway}/api/v1/steps", json=STEP, headers=headers, trust_env=False)


def check_a_full_disk(installation: Installation, full: Full) -> None:
    installation.server.app.script = lambda _: Reply(content="Grüße 👋")
    up = installation.up()
    pids = {name: child.pid for name, child in up.children().items()}
    agent = Agent(installation)
    kept = agent.call(CALLS)
    assert agent.health()["lost"] == 0
    with full(installation, up):
        agent.call(CALLS)
        assert agent.health()["lost"] == CALLS
        refused = post(installation)
        assert refused.status_code in (503, 507), "not acknowledged"
        assert "losses" in installation.stepwell("doctor").stdout
    kept += agent.call(CALLS)
    eventually(lambda: lost_in_metrics(installation) == CALLS, "the loss is counted where it lasts")
    assert post(installation).json()["items"][0]["status"] == "accepted", "what was refused may come again"
    agent.say("/trajectories/end", "completed")
    installation.flush()
    assert {name: child.pid for name, child in up.children().items()} == pids, "nobody died of it"
    check_what_is_there(installation, kept)


def check_what_is_there(installation: Installation, kept: list[str]) -> None:
    warehouse = Warehouse.open(installation.data / "warehouse", create=False)
    rows = warehouse.query("select response_id, status from steps where trajectory_id = 'agent'").to_pylist()
    assert sorted(row["response_id"] for row in rows) == sorted(kept)
    assert {row["status"] for row in rows} == {"ok"}
    (trajectory,) = warehouse.query("select state from trajectories where trajectory_id = 'agent'").to_pylist()
    assert trajectory["state"] == "incomplete", "its lost calls are known"
    assert warehouse.query("select 1 from steps where step_id = 'posted'").num_rows == 1
    said = installation.stepwell("doctor").stdout
    assert f"{CALLS} calls were lost over time" in said, said


@pytest.mark.usefixtures("small_disk")
def test_a_disk_that_is_full_to_the_last_byte(installation: Installation) -> None:
    check_a_full_disk(installation, last_byte_taken)


@pytest.mark.skipif(not hasattr(psutil.Process, "rlimit"), reason="limits of another process cannot be set here")
def test_a_disk_that_takes_no_write(installation: Installation) -> None:
    check_a_full_disk(installation, no_more_to_a_file)
