"""Maintenance in the background: only with the lease, and never in the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.warehouse._commit.maintain_thread import CLEAN, SWEEP, MaintainThread
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import EVENTS
from stepwell.warehouse._upkeep.maintain import Maintainer


def events(place: Place, count: int) -> LedgerTable:
    table = LedgerTable(EVENTS, place.uri, place.options)
    for number in range(1, count + 1):
        row = {"event_id": f"e{number}", "producer": "p", "sequence": number}
        table.commit(pa.Table.from_pylist([row], schema=EVENTS.schema), {"p": number})
    return table


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_with_the_lease_it_works_and_without_it_does_not(local: Place) -> None:
    table, held = events(local, 101), [False]
    thread = MaintainThread(local.uri, local.options, lambda: held[0], keep=timedelta(0), look=0.01)
    thread.start()
    time.sleep(0.2)
    table.refresh()
    assert len(table.dataset.get_fragments()) == 102
    held[0] = True

    def compacted() -> bool:
        table.refresh()
        return len(table.dataset.get_fragments()) == 2

    until(compacted)
    thread.stop(30)
    table.refresh()
    assert len(table.dataset.versions()) == 1
    assert table.marks() == {"p": 101}


def test_one_that_never_began_can_be_stopped(local: Place) -> None:
    MaintainThread(local.uri, local.options, lambda: True).stop(1)


def test_how_often(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments are looked at each time, versions and payloads now and then."""
    now, done = [0.0], []
    for name in ("sweep", "tidy"):
        monkeypatch.setattr(Maintainer, name, lambda *_, name=name: done.append(name))
    monkeypatch.setattr(Maintainer, "tend", lambda *_, clean: done.append(f"tend {clean}"))
    thread = MaintainThread(local.uri, local.options, lambda: True, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, CLEAN, CLEAN + 1, SWEEP):
        thread.turn()
        done.append("|")
    expected = "sweep tidy tend True | tend False | tend True | tend False | sweep tidy tend True |"
    assert " ".join(done) == expected


def test_a_failure_does_not_end_it(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []

    def turn(_: MaintainThread) -> None:
        turns.append(1)
        if len(turns) < 3:
            raise StoreError("away") if len(turns) == 1 else KeyError("who knows")

    monkeypatch.setattr(MaintainThread, "turn", turn)
    thread = MaintainThread(local.uri, local.options, lambda: True, look=0.01)
    thread.start()
    until(lambda: len(turns) > 2)
    thread.stop(30)
