"""The lock that dies with its process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import ProcessLock
from stepwell.spool._lock import held

Child = Callable[..., "subprocess.Popen[str]"]
HOLD = "lock = ProcessLock(path); print(lock.acquire(), flush=True); sys.stdin.readline(); lock.release(); sys.stdin.read()"


@pytest.fixture
def lock_path(tmp_path: Path) -> Path:
    return tmp_path / "it's a # lock?.lock"


def test_held_by_one_at_a_time(lock_path: Path) -> None:
    one, other = ProcessLock(lock_path), ProcessLock(lock_path)
    assert not held(lock_path)
    assert one.acquire()
    assert held(lock_path)
    assert not other.acquire()
    one.release()
    one.release()
    assert not held(lock_path)
    assert other.acquire()
    other.release()


@pytest.mark.parametrize("ending", ["kill", "release"])
def test_another_process_holds_it_until_it_ends_or_lets_go(ending: str, lock_path: Path, child: Child) -> None:
    process = child(HOLD, lock_path)
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "True\n"
    lock = ProcessLock(lock_path)
    assert held(lock_path) and not lock.acquire()
    if ending == "kill":
        process.send_signal(signal.SIGKILL)
        process.wait()
    else:
        process.stdin.write("\n")
        process.stdin.flush()
    assert lock.acquire(wait=60)
    lock.release()
    assert not held(lock_path)


def test_a_missing_file_is_held_by_nobody_and_not_made(lock_path: Path) -> None:
    assert not held(lock_path)
    assert not lock_path.exists()


def test_what_is_no_lock_is_named(tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish.lock"
    rubbish.write_bytes(b"rubbish" * 1000)
    for path in (rubbish, tmp_path / "no folder" / "x.lock", tmp_path):
        with pytest.raises(SpoolError, match="lock file"):
            ProcessLock(path).acquire()
    with pytest.raises(SpoolError, match=r"rubbish\.lock"):
        held(rubbish)
