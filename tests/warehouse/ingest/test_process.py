"""The process: killed at any moment and started again, told to stop, kept from starting twice."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SettingsError, StoreError
from stepwell.spool import ProcessLock
from stepwell.warehouse import Ingest, IngestConfig, Warehouse, run_ingest
from stepwell.warehouse._commit.commit_thread import CommitThread
from stepwell.warehouse._ingest import process as _process

CONFIG = IngestConfig(interval=0.01, idle=0.01, drain=20)
CHILD = """
import json, sys
from pathlib import Path
from stepwell.warehouse import IngestConfig, run_ingest
if __name__ == "__main__":
    data, warehouse = sys.argv[1:]
    run_ingest(IngestConfig(interval=0, idle=0.005, drain=120), data=Path(data), warehouse=warehouse, storage_options={},
               ready=lambda about: print(json.dumps(about), flush=True))
"""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def child(tmp_path: Path, local: Any) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start ingest as a process of its own, and wait until it says that it is ready."""
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path), local.uri], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"warehouse": local.uri}
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Producer(threading.Thread):
    """Appends calls until told to stop; `made` are the steps of those that were acknowledged."""

    def __init__(self, feed: Any) -> None:
        super().__init__()
        self.feed, self.enough = feed, threading.Event()
        self.made: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.enough.wait(0.002):
            number += 1
            self.made.append(self.feed.exchange([user(f"q{number}")], "a", f"t{number % 5}"))
            if number % 7 == 0:
                self.feed.feedback(step_id=self.made[-1], reward=1.0)


def test_killed_at_random_moments(child: Any, feed: Any, local: Any) -> None:
    """Exactly the acknowledged steps, each once, and the rewards."""
    rng = random.Random(os.getpid())
    producer = Producer(feed)
    producer.start()
    try:
        for _ in range(3):
            process = child()
            threading.Event().wait(rng.uniform(0.0, 0.6))
            process.send_signal(signal.SIGKILL)
            process.wait()
    finally:
        producer.enough.set()
        producer.join()
    process = child()
    process.terminate()
    assert process.wait(150) == 0
    warehouse = local.open(create=False)
    stored = warehouse.tables["steps"].dataset.to_table(columns=["step_id"], filter="ledger IS NULL")
    assert Counter(stored["step_id"].to_pylist()) == Counter(producer.made)
    assert warehouse.query("SELECT count(*) AS n FROM steps")["n"].to_pylist() == [len(producer.made)]
    rewards = warehouse.query("SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM events").to_pylist()
    assert rewards == [{"n": len(producer.made) // 7, "ids": len(producer.made) // 7}]


@pytest.fixture
def run(tmp_path: Path, local: Any) -> Callable[..., None]:
    """`run_ingest` in this process."""

    def start(**more: Any) -> None:
        options: dict[str, Any] = {
            "data": tmp_path,
            "warehouse": local.uri,
            "storage_options": {},
            "ready": lambda _: None,
            "stop": threading.Event(),
        }
        config = more.pop("config", CONFIG)
        run_ingest(config, **{**options, **more})

    return start


def test_what_is_left_is_taken_in_before_it_ends(run: Any, feed: Any, warehouse: Warehouse) -> None:
    stop = threading.Event()
    stop.set()
    steps = [feed.exchange([user(f"q{n}")]) for n in range(3)]
    run(stop=stop)
    assert sorted(warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist()) == sorted(steps)


def test_ready_is_said_once_the_warehouse_is_open(run: Any, tmp_path: Path) -> None:
    said: list[dict[str, Any]] = []
    stop = threading.Event()
    stop.set()
    run(warehouse=str(tmp_path / "new"), ready=said.append, stop=stop)
    assert said == [{"warehouse": str(tmp_path / "new")}]
    assert Warehouse.open(tmp_path / "new", create=False).marks() == {}


def test_two_on_one_folder_are_refused(run: Any, tmp_path: Path) -> None:
    other = ProcessLock(tmp_path / "ingest.lock")
    assert other.acquire()
    with pytest.raises(SettingsError, match="another ingest works on"):
        run()
    other.release()
    stop = threading.Event()
    stop.set()
    run(stop=stop)
    run(stop=stop)  # the lock is given back


@pytest.mark.timeout(60)
def test_an_unreachable_store_is_a_settings_error(run: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = {"aws_endpoint": f"http://127.0.0.1:{port}", "allow_http": "true"}
    keys = {"aws_access_key_id": "KEYID", "aws_secret_access_key": "SECRETKEY"}
    with pytest.raises(SettingsError, match=f"cannot use the bucket 'bucket' at http://127.0.0.1:{port}") as caught:
        run(warehouse="s3://bucket/x", storage_options={**options, **keys})
    assert "SECRETKEY" not in str(caught.value)
    lock = ProcessLock(tmp_path / "ingest.lock")
    assert lock.acquire(), "the lock is given back"
    lock.release()


@pytest.mark.parametrize("step", ["flush", "settle"])
def test_a_failing_round_is_tried_again(
    run: Any,
    feed: Any,
    warehouse: Warehouse,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
) -> None:
    stop, failures, real = threading.Event(), [StoreError("the store failed")], getattr(Ingest, step)

    def fail_once(self: Ingest) -> Any:
        if failures:
            raise failures.pop()
        if warehouse.marks():
            stop.set()
        return real(self)

    monkeypatch.setattr(Ingest, step, fail_once)
    made = feed.exchange([user("q")])
    with caplog.at_level(logging.WARNING):
        run(stop=stop)
    assert "the store failed; the spools keep what comes" in caplog.text
    warehouse.refresh()
    assert warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist() == [made]


def test_a_store_that_is_gone_at_the_end_is_said(
    run: Any, feed: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    stop.set()

    def fail(_: Ingest) -> int:
        raise StoreError("the store failed")

    monkeypatch.setattr(Ingest, "flush", fail)
    feed.exchange([user("q")])
    with caplog.at_level(logging.WARNING):
        run(stop=stop)
    assert "comes at the next start" in caplog.text


def test_what_a_killed_one_had_announced_does_not_keep_the_rest_from_being_taken_in(
    run: Any, feed: Any, warehouse: Warehouse, tmp_path: Path
) -> None:
    """Told to stop at once: what is left is more than what is on its way."""
    feed.step(step_id="a")
    Ingest(warehouse, tmp_path / "spool").flush()
    feed.step(step_id="b")
    stop = threading.Event()
    stop.set()
    real = Ingest.flush

    def flush(self: Ingest) -> int:
        """It is committed just when this one has seen that it has to wait for it."""
        count = real(self)
        assert not warehouse.wait_for({feed.producer: 1}, 60)
        return count

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ingest, "flush", flush)
        run(stop=stop)
    assert sorted(warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist()) == ["a", "b"]


def test_what_was_announced_last_is_committed_before_it_ends(run: Any, feed: Any, warehouse: Warehouse) -> None:
    """Even when there is no time to wait for it."""
    stop = threading.Event()

    def then_stop(_: Any) -> None:
        stop.set()

    step = feed.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_process, "_SETTLING", 0.0)
        run(stop=stop, ready=then_stop, config=IngestConfig(drain=0.001))
    warehouse.refresh()
    assert warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist() == [step]


def test_it_ends_when_nothing_is_committed_any_more(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that whoever watches it starts it again; and the folder is free for that."""

    def ended(_: CommitThread) -> None:
        raise StoreError("the committer has ended")

    monkeypatch.setattr(CommitThread, "check", ended)
    with pytest.raises(StoreError, match="the committer has ended"):
        run()
    lock = ProcessLock(tmp_path / "ingest.lock")
    assert lock.acquire()
    lock.release()


def test_a_failing_ready_leaves_nothing_behind(run: Any, tmp_path: Path) -> None:
    def fail(_: Any) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(ready=fail)
    lock = ProcessLock(tmp_path / "ingest.lock")
    assert lock.acquire()
    lock.release()


def test_an_s3_warehouse_is_filled_and_another_process_reads_it(
    run: Any, feed: Any, s3: Any, warehouse: Warehouse
) -> None:
    stop = threading.Event()
    stop.set()
    steps = [feed.exchange([user(f"q{n}")]) for n in range(3)]
    run(stop=stop, warehouse=s3.uri, storage_options=s3.options)
    read = s3.open(create=False).query("SELECT step_id FROM steps")["step_id"].to_pylist()
    assert sorted(read) == sorted(steps)
