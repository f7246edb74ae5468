"""The stack with small stand-ins for its processes: they lock, say their ports and end as the real ones do."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepwell.cli._settings import Settings, load_settings
from stepwell.cli._stack import Ports, Stack
from stepwell.cli._supervisor import Backoff
from stepwell.errors import SettingsError, StepwellError

STAND_IN = """
import os, pathlib, signal, sys, time
from stepwell.cli._process import one_process
from stepwell.cli._settings import load_settings
name, drain, hold = sys.argv[1], float(sys.argv[2]), pathlib.Path(sys.argv[3])
settings = load_settings()
with one_process(name, settings.data, supervised=True) as ready:
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(1))
    log = settings.data / "ends"
    mark = settings.data / f"{name}-started"
    free = 100 if mark.exists() else 0  # a second start would find other free ports than the first
    mark.touch()
    ports = {
        "proxy": {"port": settings.proxy.port or free + 41, "run_port": settings.proxy.run_port or free + 42},
        "gateway": {"port": settings.gateway.port or free + 43},
    }
    ready(ports.get(name, {}))
    while not ending:
        signal.sigtimedwait([], 0.02)
    time.sleep(drain)
    while hold.name and not hold.exists():
        time.sleep(0.02)
    with log.open("a") as file:
        print(name, file=file)
"""


def programs(*, hold: str = "", **drain: float) -> dict[str, list[str]]:
    """Stand-ins that take so long to drain, and until the file `hold` exists."""
    return {
        name: [sys.executable, "-c", STAND_IN, name, str(drain.get(name, 0.0)), hold]
        for name in ("proxy", "gateway", "ingest")
    }


@pytest.fixture
def free_ports(place: Path) -> Settings:
    return load_settings(proxy={"port": 0, "run_port": 0}, gateway={"port": 0})


@pytest.fixture
def started(free_ports: Settings) -> Iterator[Stack]:
    with Stack(free_ports, programs=programs(), backoff=Backoff(first=0.01)) as stack:
        assert stack.wait_ready(60) == Ports(proxy=41, run=42, gateway=43)
        yield stack


def test_ports_are_those_that_were_reported(started: Stack) -> None:
    environment = started.environment()
    assert json.loads(environment["STEPWELL_PROXY"])["run_port"] == 42
    assert json.loads(environment["STEPWELL_GATEWAY"])["port"] == 43
    assert environment["PATH"] == os.environ["PATH"]


def test_stop_ends_all_in_good_order(free_ports: Settings) -> None:
    with Stack(free_ports, programs=programs(proxy=0.5)) as stack:
        stack.wait_ready(60)
        pids = [pid for pid in stack.pids.values() if pid]
        assert len(pids) == 3
    assert set(stack.pids.values()) == {None}
    ends = (free_ports.data / "ends").read_text().split()
    assert sorted(ends[:2]) == ["gateway", "proxy"]
    assert ends[2] == "ingest"
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_process_that_dies_comes_back_on_its_port(started: Stack) -> None:
    before = started.pids["proxy"]
    assert before is not None
    os.kill(before, signal.SIGKILL)
    while started.pids["proxy"] in (before, None):
        time.sleep(0.02)
    assert started.wait_ready(60) == Ports(proxy=41, run=42, gateway=43)
    assert started.pids["gateway"] is not None


def test_a_folder_has_one_stack(started: Stack) -> None:
    with pytest.raises(SettingsError, match="already running on the data folder"):
        Stack(started.settings, programs=programs()).start()


def test_one_that_cannot_work_with_its_settings_fails_the_stack(free_ports: Settings) -> None:
    failed: queue.Queue[None] = queue.Queue()
    broken = programs() | {
        "gateway": [sys.executable, "-c", "import sys; print('stepwell: no such port'); sys.exit(2)"]
    }
    with Stack(free_ports, programs=broken, failed=lambda: failed.put(None)) as stack:
        failed.get(timeout=30)
        with pytest.raises(SettingsError, match="gateway: no such port"):
            stack.wait_ready(60)


def test_one_that_is_never_ready_is_named(free_ports: Settings) -> None:
    slow = programs() | {"ingest": [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]}
    with Stack(free_ports, programs=slow) as stack:
        while not stack._children["gateway"].ready.wait(1) or not stack._children["proxy"].ready.wait(1):
            pass
        with pytest.raises(StepwellError, match=r"not ready after 0\.1 s: ingest"):
            stack.wait_ready(0.1)


def test_token_and_authority_are_made(free_ports: Settings, tmp_path: Path) -> None:
    (tmp_path / "home" / "token").unlink()
    with Stack(free_ports, programs={}):
        pass
    assert len((tmp_path / "home" / "token").read_text().strip()) > 40
    assert (tmp_path / "home" / "ca").is_dir()


SUPERVISOR = """
import os, sys, time
sys.path.insert(0, {folder!r})
from test_stack import programs
from stepwell.cli._settings import load_settings
from stepwell.cli._stack import Stack
stack = Stack(load_settings(proxy={{"port": 0, "run_port": 0}}, gateway={{"port": 0}}), programs=programs(hold={hold!r}))
stack.start()
stack.wait_ready(60)
print(*stack.pids.values(), flush=True)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        not Path(f"/proc/{pid}/stat").exists()
        or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    )


@pytest.fixture
def killed_supervisor(free_ports: Settings) -> Callable[[str], list[int]]:
    """The process ids of children whose supervisor was killed a moment ago."""

    def kill(hold: str) -> list[int]:
        code = SUPERVISOR.format(folder=str(Path(__file__).parent), hold=hold)
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            pids = [int(pid) for pid in process.stdout.readline().split()]
            process.kill()
        assert len(pids) == 3
        return pids

    return kill


def test_children_do_not_outlive_a_killed_supervisor(
    killed_supervisor: Callable[[str], list[int]], free_ports: Settings
) -> None:
    pids = killed_supervisor("")
    while any(alive(pid) for pid in pids):
        time.sleep(0.05)
    assert len((free_ports.data / "ends").read_text().split()) == 3  # they drained


def test_a_new_stack_waits_for_the_children_of_a_killed_one(
    killed_supervisor: Callable[[str], list[int]], free_ports: Settings
) -> None:
    killed_supervisor("go")
    starting: queue.Queue[str] = queue.Queue()
    with Stack(
        free_ports, programs=programs(), say=lambda name, line: starting.put(name) if "starts" in line else None
    ) as stack:
        assert {starting.get(timeout=60) for _ in range(3)} == {"proxy", "gateway", "ingest"}
        time.sleep(0.5)  # they would have given up by now
        Path("go").touch()
        stack.wait_ready(60)
        assert len((free_ports.data / "ends").read_text().split()) == 3  # the old ones had ended in good order
        assert {child.starts for child in stack._children.values()} == {1}
