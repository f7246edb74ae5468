"""Keeping the summaries fresh: only by whoever has the lease, and whatever goes wrong, later again."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.warehouse.made_facts import Facts

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse import Warehouse
from stepwell.warehouse._commit.summary_thread import SummaryThread


def test_only_with_the_lease_and_again_after_a_failure(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    Facts(warehouse, 1).commit(20)
    asked, done = threading.Semaphore(0), threading.Event()
    held = [False, False, True, True, True, True]
    failures: list[Exception] = [CommitConflict("other"), StoreError("away"), RuntimeError("what")]
    real = SummaryThread.turn

    def hold() -> bool:
        asked.release()
        return held.pop(0) if held else False

    def turn(self: SummaryThread) -> int:
        if failures:
            raise failures.pop(0)
        count = real(self)
        done.set()
        return count

    monkeypatch.setattr(SummaryThread, "turn", turn)
    thread = SummaryThread(warehouse.uri, {}, hold, every=0.01)
    thread.start()
    for _ in range(2):
        assert asked.acquire(timeout=30)
    assert done.wait(60)
    thread.stop(60)
    assert not failures
    warehouse.refresh()
    assert warehouse.tables["trajectories"].number() == warehouse.tables["groups"].number() == 1


def test_it_may_be_stopped_before_it_began(local: Any) -> None:
    SummaryThread(str(local.uri), {}, lambda: True).stop(1)
