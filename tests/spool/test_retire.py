"""The spool of a dead producer goes once nothing is left in it, and never another one."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import Entry, ProcessLock, Spool, SpoolReader, ask_purge, retire
from stepwell.spool import _retire as retire_module

EntryOf = Callable[..., Entry]
Child = Callable[..., "subprocess.Popen[str]"]

LEAVE_A_LOG = """
import os
spool = Spool(path)
spool.append([Entry("1", "k"), Entry("2", "k")])
os._exit(9)
"""


def aged(path: Path, seconds: float = 3600.0) -> Path:
    """As if nothing had been written to it for so long."""
    at = time.time() - seconds
    for file in path.parent.glob(f"{path.name}*"):
        os.utime(file, (at, at))
    return path


@pytest.fixture
def drained(path: Path, entry: EntryOf) -> Path:
    """A spool of two records, whose producer has ended an hour ago."""
    with Spool(path) as spool:
        spool.append([entry("1"), entry("2")])
    return aged(path)


def test_what_is_committed_goes_with_its_files(path: Path, child: Child) -> None:
    child(LEAVE_A_LOG, path).wait()
    assert path.with_name(f"{path.name}-wal").stat().st_size, "killed, it leaves its log"
    assert retire(aged(path), 2)
    assert [file.name for file in path.parent.iterdir()] == [path.with_suffix(".lock").name]


def test_whoever_comes_next_is_another_producer(drained: Path, entry: EntryOf) -> None:
    with closing(SpoolReader(drained)) as reader:
        before = reader.producer
    assert retire(drained, 2)
    with Spool(drained) as spool:
        assert spool.producer != before
        assert spool.append([entry("1")]) == [1]


def test_not_with_a_record_that_is_not_committed(drained: Path) -> None:
    assert not retire(drained, 1)
    assert drained.exists()


def test_not_soon_after_the_last_record(drained: Path, entry: EntryOf) -> None:
    assert not retire(drained, 2, after=7200)
    with Spool(drained) as spool:
        spool.append([entry("3")])
    assert not retire(drained, 3)


def test_what_is_in_the_log_is_recent_too(path: Path, child: Child) -> None:
    """A database whose log was not moved into it yet is older than its last record."""
    child(LEAVE_A_LOG, path).wait()
    os.utime(path, (1, 1))
    assert not retire(path, 2)


def test_not_while_the_producer_lives(path: Path, child: Child) -> None:
    code = "s = Spool(path); s.append([Entry('1', 'k')]); print(1, flush=True); sys.stdin.read()"
    process = child(code, path)
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    assert not retire(aged(path), 1)
    process.kill()
    process.wait()
    assert retire(aged(path), 1)


def test_nor_where_one_has_begun_just_now(drained: Path) -> None:
    with Spool(drained):
        assert not retire(aged(drained), 2)
    assert drained.exists()


def test_nor_one_that_has_ended_again_meanwhile(drained: Path, entry: EntryOf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the lock a producer came, wrote, and went."""

    class Late(ProcessLock):
        def acquire(self, wait: float = 0.0) -> bool:
            if self.path.parent == drained.parent and not Late.came:
                Late.came = True
                with Spool(drained) as spool:
                    spool.append([entry("3")])
            return super().acquire(wait)

        came = False

    monkeypatch.setattr(retire_module, "ProcessLock", Late)
    assert not retire(drained, 2)
    with closing(SpoolReader(drained)) as reader:
        assert reader.last() == 3


def test_not_with_a_call_that_nobody_has_closed(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool:
        spool.append([entry("1", opens=True)])
    assert not retire(aged(path), 1)


def test_not_while_it_is_to_be_made_anew(drained: Path) -> None:
    ask_purge(drained)
    assert not retire(drained, 2)


def test_losses_are_shown_for_a_week(drained: Path) -> None:
    with Spool(drained) as spool:
        spool.add_lost(3)
    assert not retire(aged(drained, 24 * 3600), 2)
    assert retire(aged(drained, 8 * 24 * 3600), 2)


def test_what_is_no_spool_is_left(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"broken" * 1000)
    with pytest.raises(SpoolError, match="not a readable spool"):
        retire(aged(path), 9)
    assert path.exists()
