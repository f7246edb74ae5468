"""Rows of datasets that nobody registered go when they are old; those of a creation that is under way never do."""

from __future__ import annotations

import time
from typing import Any

import lance
import pytest
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.warehouse import Ingest, Warehouse, verify
from stepwell.warehouse._datasets import datasets, frozen
from stepwell.warehouse._datasets.dataset_id import new_id
from stepwell.warehouse._datasets.pins import PINNED, tag_of
from stepwell.warehouse._datasets.registry import Registry
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._upkeep.sweep import KEPT
from stepwell.warehouse._upkeep.unregistered import Unregistered, sweep_pins, sweep_rows

ALL = "trajectory_id = 't'"


@pytest.fixture
def filled(anywhere: Place, feed: Any, spools: Any) -> Warehouse:
    warehouse = anywhere.open()
    for number in range(3):
        feed.step(trajectory_id="t", prompt_ids=[*range(30), number], response_ids=[number])
    Ingest(warehouse, spools).run_once()
    return warehouse


def swept(warehouse: Warehouse, later: float = KEPT + 60, **more: bool) -> Unregistered:
    return sweep_rows(warehouse.tables["dataset_rows"], warehouse.tables["datasets"], time.time() + later, **more)


def cut_short(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, id_: str | None = None) -> None:
    """A creation that died between its two commits."""

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(warehouse.datasets), "_register", die)
        if id_ is not None:
            patch.setattr(datasets, "new_id", lambda: id_)
        with pytest.raises(KeyboardInterrupt):
            warehouse.datasets.create("lost", ALL)


def notes(warehouse: Warehouse) -> list[str]:
    report = verify(warehouse.uri, warehouse.storage_options)
    assert report.ok
    return [str(finding) for finding in report.findings]


def test_only_what_is_old_and_not_registered_goes(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    filled.datasets.create("kept", ALL)
    assert swept(filled) == Unregistered()
    lost = new_id()
    cut_short(filled, monkeypatch, lost)
    cut_short(filled, monkeypatch)
    [note] = notes(filled)
    assert "2 datasets have rows and are not registered" in note and f"first {lost}" in note and "maintain" in note
    assert swept(filled, KEPT - 60) == Unregistered(), "either may be under way"
    assert swept(filled, dry_run=True) == Unregistered(2, 6)
    assert swept(filled) == Unregistered(2, 6)
    assert swept(filled) == Unregistered()
    assert notes(filled) == []
    assert filled.tables["dataset_rows"].dataset.count_rows("ledger IS NULL") == 3
    assert filled.datasets.read("kept").num_rows == 3


def test_a_deletion_that_was_cut_short_is_finished(local: Place, feed: Any, spools: Any) -> None:
    warehouse = local.open()
    feed.step(trajectory_id="t", prompt_ids=[1], response_ids=[2])
    Ingest(warehouse, spools).run_once()
    made = warehouse.datasets.create("d", ALL)
    Registry(warehouse.tables["datasets"]).remove(made)
    assert "1 datasets have rows and are not registered" in notes(warehouse)[0]
    assert swept(warehouse) == Unregistered(1, 1)
    assert notes(warehouse) == []


def test_an_id_that_does_not_say_when_it_was_made_stays(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(filled, monkeypatch, "0" * 32)
    assert swept(filled) == Unregistered()


def test_what_is_registered_while_it_is_looked_for_stays(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was held up for a week between its two commits goes on just before the registry is looked at."""
    refresh, made = type(filled.tables["datasets"]).refresh, list[None]()

    def late(table: Any) -> None:
        if table is filled.tables["datasets"] and not made:
            made.append(None)
            filled.datasets.create("d", ALL)
        refresh(table)

    cut_short(filled, monkeypatch)
    monkeypatch.setattr(type(filled.tables["datasets"]), "refresh", late)
    assert swept(filled) == Unregistered(1, 3)
    assert filled.datasets.read("d").num_rows == 3


def test_a_creation_that_lost_its_rows_makes_them_anew(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was held up for so long that its rows were taken for left over; the next attempt is not, or is as well."""
    write, held = frozen.write, list[int]()

    def held_up(*given: Any) -> None:
        write(*given)
        if len(held) < times:
            held.append(1)
            assert swept(filled) == Unregistered(1, 3)

    monkeypatch.setattr(frozen, "write", held_up)
    times = 1
    made = filled.datasets.create("d", ALL)
    assert (made.version, filled.datasets.list()) == (2, [made])
    assert filled.datasets.read("d").num_rows == 3
    times = 99
    with pytest.raises(StoreError, match="dataset e was made: create it again"):
        filled.datasets.create("e", ALL)
    assert filled.datasets.list() == [made]


def pins(warehouse: Warehouse) -> dict[str, set[str]]:
    found = {}
    for name in PINNED:
        warehouse.tables[name].refresh()
        found[name] = set(warehouse.tables[name].dataset.tags.list())
    return found


def test_pins_of_what_was_never_registered_go(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = filled.datasets.create("kept", ALL, pin=True)
    filled.tables["steps"].dataset.tags.create("release-v1", filled.tables["steps"].dataset.version)

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LedgerTable, "commit", die)  # behind the rows and the tags comes the registry's commit
        patch.setattr(frozen, "write", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            filled.datasets.create("a/lost one", ALL, pin=True)
    with monkeypatch.context() as patch:
        patch.setattr(datasets, "unpin", die)
        filled.datasets.create("gone", ALL, pin=True)
        with pytest.raises(KeyboardInterrupt):
            filled.datasets.delete("gone", 1, force=True)
    before = pins(filled)
    assert all(len(tags - {"release-v1"}) == 3 for tags in before.values())
    assert sweep_pins(filled.tables, time.time()) == 0 and pins(filled) == before, "it may be under way"
    later = time.time() + KEPT + 60
    assert sweep_pins(filled.tables, later, dry_run=True) == 6 and pins(filled) == before
    assert sweep_pins(filled.tables, later) == 6
    assert pins(filled) == {name: {tag_of(kept), *(["release-v1"] if name == "steps" else [])} for name in PINNED}
    assert sweep_pins(filled.tables, later) == 0


def test_a_round_of_maintenance_does_it(local: Place, feed: Any, spools: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell.warehouse._upkeep.maintain import Maintainer

    warehouse = local.open()
    feed.step(trajectory_id="t", prompt_ids=[1], response_ids=[2])
    Ingest(warehouse, spools).run_once()
    cut_short(warehouse, monkeypatch)

    def round_at(now: float) -> Any:
        return Maintainer(warehouse.uri, warehouse.tables, {}, now=lambda: now).round()

    assert round_at(time.time()).datasets == Unregistered()

    def broken(self: lance.LanceDataset, condition: str) -> object:
        raise OSError("no route to the store")

    later = time.time() + KEPT + 60
    with monkeypatch.context() as patch:
        patch.setattr(lance.LanceDataset, "delete", broken)
        [error] = round_at(later).errors
        assert "no route" in error
    assert round_at(later).datasets == Unregistered(1, 1)
