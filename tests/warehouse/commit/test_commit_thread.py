"""Committing beside ingest: it goes on whatever happens, and says so when it cannot."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores import Place

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._commit.commit_thread import CommitThread
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._store.lease import FOLDER, Lease
from stepwell.warehouse._store.objects import objects_at

Start = Callable[..., CommitThread]


@pytest.fixture
def start(local: Place) -> Iterator[Start]:
    """Threads as of processes of these names; ended with the test."""
    made: list[CommitThread] = []

    def begin(owner: str = "me", **more: Any) -> CommitThread:
        made.append(CommitThread(local.uri, local.options, owner, **{"beat": 0.05, "patience": 0.3, **more}))
        made[-1].start()
        return made[-1]

    yield begin
    for thread in made:
        thread.stop(30)


@pytest.fixture
def announced(local: Place, feed: Any, spools: Path) -> Callable[[], None]:
    """One more step, written and announced by an ingest of its own."""
    worker = Ingest(local.open(), spools)

    def announce() -> None:
        feed.step()
        worker.settle()
        assert worker.flush() == 1

    return announce


def wait_for(warehouse: Warehouse, feed: Any, mark: int) -> None:
    assert not warehouse.wait_for({feed.producer: mark}, 60)


def test_what_is_announced_is_committed(start: Start, announced: Any, warehouse: Warehouse, feed: Any) -> None:
    thread = start()
    for number in range(1, 4):
        announced()
        thread.wake()
        wait_for(warehouse, feed, number)
    thread.check()


def test_nobody_needs_to_wake_it(start: Start, announced: Any, warehouse: Warehouse, feed: Any) -> None:
    start()
    announced()
    wait_for(warehouse, feed, 1)


def test_another_goes_on_when_it_is_stopped(start: Start, announced: Any, warehouse: Warehouse, feed: Any) -> None:
    """At once, without waiting for its beat to be missed."""
    first = start("one", patience=3600.0)
    announced()
    wait_for(warehouse, feed, 1)
    start("two", patience=3600.0)
    first.stop(30)
    announced()
    wait_for(warehouse, feed, 2)


def test_another_goes_on_when_it_is_gone(
    start: Start, local: Place, announced: Any, warehouse: Warehouse, feed: Any
) -> None:
    dead = Lease(objects_at(local.uri, local.options), "dead")
    assert dead.hold()
    start("two")
    announced()
    wait_for(warehouse, feed, 1)


def test_who_has_no_lease_commits_nothing(start: Start, local: Place, announced: Any, warehouse: Warehouse) -> None:
    other = Lease(objects_at(local.uri, local.options), "other")
    assert other.hold()
    thread = start("me", patience=3600.0)
    announced()
    thread.wake()
    thread.stop(30)
    assert warehouse.marks() == {}
    terms = [key for key, _ in objects_at(local.uri, local.options).listed(FOLDER)]
    assert not any(key.endswith("ended") for key in terms), "and ends nobody else's term"


@pytest.mark.parametrize(
    "error", [StoreError("the store failed"), CommitConflict("another"), OSError("disk"), KeyError("a bug")]
)
def test_whatever_happens_it_goes_on(
    start: Start,
    announced: Any,
    warehouse: Warehouse,
    feed: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    failures, real = [error, error], Committer.run_once

    def run_once(self: Committer) -> int:
        if failures:
            raise failures.pop()
        return real(self)

    monkeypatch.setattr(Committer, "run_once", run_once)
    with caplog.at_level(logging.WARNING):
        announced()
        start()
        wait_for(warehouse, feed, 1)
    assert str(error.args[0]) in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_that_ended_by_itself_is_noticed(start: Start, announced: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A panic in Lance is no ordinary exception."""

    class Panic(BaseException):
        pass

    def panic(_: Committer) -> int:
        raise Panic

    thread = start()
    thread.check()
    monkeypatch.setattr(Committer, "run_once", panic)
    thread.wake()
    deadline = time.monotonic() + 30
    with pytest.raises(StoreError, match="the committer has ended"):
        while time.monotonic() < deadline:
            thread.check()
            threading.Event().wait(0.01)


def test_one_that_never_began_can_be_stopped(local: Place) -> None:
    CommitThread(local.uri, local.options, "me").stop(1)


def test_a_store_that_fails_at_the_end_is_only_said(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Lease) -> None:
        raise StoreError("the store failed")

    monkeypatch.setattr(Lease, "release", fail)
    with caplog.at_level(logging.WARNING):
        start().stop(30)
    assert "takes the lease a few seconds later" in caplog.text


def test_a_warehouse_that_cannot_be_opened_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError):
        CommitThread(str(tmp_path / "file"), {}, "me")
