"""The gateway is away, and processes end, are killed, fork: what they submitted arrives, in order, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell import sdk

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3]}
_HEAD = """
import os, sys, time
from stepwell import sdk
sdk.configure(sys.argv[1], sys.argv[2])
def step(name, **more):
    sdk.submit_step(step_id=name, prompt_ids=[1], response_ids=[2], **more)
"""


def start(code: str, url: str, token: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _HEAD + code, url, token]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(code: str, url: str, token: str) -> str:
    process = start(code, url, token)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


@pytest.fixture
def away(gateway_process: Any) -> Iterator[Any]:
    """A gateway whose address is known, and which is not running."""
    gateway_process.end(signal.SIGKILL)
    yield gateway_process


def steps(gateway: Any) -> list[str]:
    return [record.id.removeprefix("step.") for record in gateway.records() if record.kind == "step"]


def left(home: Path) -> list[Path]:
    return sorted((home / "sdk").glob("*/*"))


def test_what_a_process_leaves_the_next_one_delivers(away: Any, token: str, tmp_path: Path) -> None:
    for part in range(2):
        run(f"with sdk.trajectory('t{part}'):\n  for n in range(120): step(f'{part}.{{n}}')", away.url, token)
    assert len([path for path in left(tmp_path / "home") if path.suffix == ".db"]) == 2
    away.start()
    said = run("step('2.0'); print(sdk.flush(30)); print(sdk.status().recovered)", away.url, token)
    assert "acknowledged=1, unacknowledged=0" in said and said.split()[-1] == "244"
    assert steps(away) == [f"{part}.{n}" for part in range(2) for n in range(120)] + ["2.0"]
    states = [json.loads(record.body)["state"] for record in away.records() if record.kind == "trajectory"]
    assert states == ["open", "completed"] * 2
    assert left(tmp_path / "home") == []


def test_flush_alone_delivers_what_is_left(away: Any, token: str) -> None:
    run("step('a')", away.url, token)
    away.start()
    run("sdk.flush(30)", away.url, token)
    assert steps(away) == ["a"]


def test_a_killed_process_loses_nothing_that_flush_called_spooled(away: Any, token: str) -> None:
    process = start(
        "for n in range(300): step(str(n))\nprint(sdk.flush(0.5).spooled, flush=True); time.sleep(60)", away.url, token
    )
    assert process.stdout is not None and process.stdout.readline().strip() == "300"
    process.kill()
    process.communicate()
    away.start()
    run("sdk.flush(30)", away.url, token)
    assert steps(away) == [str(n) for n in range(300)]


def test_the_gateway_comes_back_while_the_process_lives(away: Any, token: str, eventually: Any) -> None:
    client = sdk.Client(away.url, token)
    for number in range(60):
        client.submit_step(step_id=f"a{number}", **TOKENS)
    eventually(lambda: client.status().spooled == 60)  # by itself, after a few seconds
    for number in range(60):
        client.submit_step(step_id=f"b{number}", **TOKENS)
    away.start()
    flushed = client.flush(30)
    assert (flushed.acknowledged, flushed.unacknowledged, flushed.spooled, flushed.dropped) == (120, 0, 0, 0)
    assert steps(away) == [f"{name}{number}" for name in "ab" for number in range(60)]
    client.close()


def test_a_lost_acknowledgement_is_no_second_record(gateway: Any, token: str, tmp_path: Path) -> None:
    """Sent, taken, and its process killed before it noted that."""
    from stepwell.sdk._disk import Disk, folder_for
    from stepwell.sdk._steps import step_item

    folder = folder_for(gateway.url)
    for _ in range(2):
        disk = Disk.fresh(folder)
        disk.append([step_item({"step_id": f"s{number}", **TOKENS}) for number in range(3)])
        disk.close()
    with sdk.Client(gateway.url, token) as client:
        client.flush(30)
        assert (client.status().recovered, client.status().duplicates) == (6, 3)
    assert steps(gateway) == ["s0", "s1", "s2"]


def test_a_spool_that_is_damaged_stays_and_holds_nothing_up(gateway: Any, token: str) -> None:
    from stepwell.sdk._disk import folder_for
    from stepwell.spool import Entry, Spool

    folder = folder_for(gateway.url)
    with Spool(folder / "later.db") as spool:
        spool.append([Entry("1", "dream", b"id", b"{}")])
    with sdk.Client(gateway.url, token) as client:
        client.submit_step(step_id="a", **TOKENS)
        assert client.flush(30).acknowledged == 1
    assert (folder / "later.db").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_forked_child_leaves_its_parents_records_alone(away: Any, token: str) -> None:
    run(
        """
for n in range(30): step(f'parent-{n:02}')
assert sdk.flush(0.3).spooled == 30
pid = os.fork()
if pid == 0:
    assert sdk.status().pending == 0
    step('child')
    sys.exit(0)
os.waitpid(pid, 0)
step('parent-end')
""",
        away.url,
        token,
    )
    away.start()
    run("sdk.flush(30)", away.url, token)
    found = steps(away)
    assert sorted(found) == sorted(["child", "parent-end", *(f"parent-{n:02}" for n in range(30))])
    assert [name for name in found if name.startswith("parent")] == [f"parent-{n:02}" for n in range(30)] + [
        "parent-end"
    ]


def test_many_leave_and_many_recover_at_once(away: Any, token: str, tmp_path: Path) -> None:
    code = "with sdk.trajectory('t{0}'):\n  for n in range(150): step(f'{0}.{{n}}')"
    leaving = [start(code.format(part), away.url, token) for part in range(4)]
    for process in leaving:
        process.communicate(timeout=90)
    away.start()
    recovering = [start(f"step('r{part}'); print(sdk.flush(60))", away.url, token) for part in range(3)]
    for process in recovering:
        out, err = process.communicate(timeout=90)
        assert "acknowledged=1, unacknowledged=0" in out, err
    run("sdk.flush(30)", away.url, token)  # whoever found a spool in use went past it
    found = steps(away)
    assert len(found) == len(set(found)) == 4 * 150 + 3
    for part in range(4):
        assert [name for name in found if name.startswith(f"{part}.")] == [f"{part}.{n}" for n in range(150)]
    assert left(tmp_path / "home") == []


def test_another_gateways_records_are_not_sent_here(away: Any, gateway: Any, token: str) -> None:
    run("step('away')", away.url, token)
    with sdk.Client(gateway.url, token) as client:
        client.submit_step(step_id="here", **TOKENS)
        client.flush(30)
    assert steps(gateway) == ["here"]
