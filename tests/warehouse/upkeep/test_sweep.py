"""Payloads that go, and those that stay."""

from __future__ import annotations

from datetime import UTC, datetime

import lance
import pyarrow as pa
import pytest
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.warehouse import Warehouse
from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._tables.schema import PAYLOADS, STEPS
from stepwell.warehouse._upkeep.sweep import KEPT, Swept, sweep

DAY = 24 * 3600.0
NOW = 1_800_000_000.0


def put(warehouse: Warehouse, payload_id: str, days: float) -> None:
    """A payload of ten bytes, put so many days ago."""
    table = warehouse.tables["payloads"]
    at = datetime.fromtimestamp(NOW - days * DAY, UTC)
    row = {
        "payload_id": payload_id,
        "size": 10,
        "data": b"0123456789",
        "created_at": at,
        "producer": "p",
        "sequence": 1,
    }
    table.add(lambda: pa.Table.from_pylist([row], schema=PAYLOADS.schema))


def refer(warehouse: Warehouse, step_id: str, *payload_ids: str) -> None:
    row = {"step_id": step_id, "payload_ids": list(payload_ids) or None, "producer": "p", "sequence": 1}
    warehouse.tables["steps"].add(lambda: pa.Table.from_pylist([row], schema=STEPS.schema))


def swept(warehouse: Warehouse, **more: bool) -> Swept:
    return sweep(warehouse.tables["payloads"], warehouse.tables["steps"], NOW, **more)


def left(warehouse: Warehouse) -> list[tuple[str, float]]:
    """Ids and ages in days."""
    table = warehouse.tables["payloads"]
    table.refresh()
    rows = table.dataset.to_table(columns=["payload_id", "created_at"], filter="ledger IS NULL").to_pylist()
    return sorted((row["payload_id"], round((NOW - row["created_at"].timestamp()) / DAY, 3)) for row in rows)


def test_what_is_old_and_not_referred_to_goes(anywhere: Place) -> None:
    warehouse = anywhere.open()
    put(warehouse, "used", 30)
    put(warehouse, "unused", 7.01)
    put(warehouse, "young", 6.99)
    refer(warehouse, "s1")
    refer(warehouse, "s2", "other", "used")
    assert swept(warehouse, dry_run=True) == Swept(1, 0, 10)
    assert len(left(warehouse)) == 3
    assert swept(warehouse) == Swept(1, 0, 10)
    assert left(warehouse) == [("used", 30), ("young", 6.99)]
    assert swept(warehouse) == Swept()
    assert warehouse.tables["payloads"].marks() == {}, "the ledger row is still there"


def test_of_several_the_newest_stays_and_its_age_counts(local: Place) -> None:
    warehouse = local.open()
    for days in (20, 5, 9):
        put(warehouse, "unused", days)
        put(warehouse, "used", days + 10)
    refer(warehouse, "s", "used")
    assert swept(warehouse) == Swept(0, 4, 40)
    assert left(warehouse) == [("unused", 5), ("used", 15)]


def test_a_step_that_is_not_visible_yet_counts(local: Place) -> None:
    """Its rows are in the table before their commit is."""
    warehouse = local.open()
    put(warehouse, "used", 30)
    row = {"step_id": "s", "payload_ids": ["used"], "producer": "p", "sequence": 5}
    warehouse.tables["steps"].commit(pa.Table.from_pylist([row], schema=STEPS.schema), {"p": 5})
    assert warehouse.marks() == {}
    assert swept(warehouse) == Swept()


def test_an_empty_table(local: Place) -> None:
    assert swept(local.open()) == Swept()


def test_a_writer_puts_again_long_before_anything_goes() -> None:
    """What it takes for stored was put three days ago at most; its flush is refused when it is more than one day old."""
    from stepwell.warehouse._commit.choice import OLD

    now = NOW
    memory = PayloadMemory(lambda: now)
    assert memory.lacks("h")
    now += 2.9 * DAY
    assert not memory.lacks("h")
    now += 0.2 * DAY
    assert memory.lacks("h")
    assert 3.1 * DAY + OLD < KEPT


def test_somebody_else_changes_the_table_meanwhile(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse, other = local.open(), local.open()
    put(warehouse, "unused", 30)
    delete, tries = lance.LanceDataset.delete, []

    def busy(self: lance.LanceDataset, condition: str) -> object:
        tries.append(condition)
        if len(tries) == 1:
            put(other, "unused", 0)  # the very payload that is going
            raise OSError("Retryable commit conflict for version 3")
        return delete(self, condition)

    monkeypatch.setattr(lance.LanceDataset, "delete", busy)
    assert swept(warehouse) == Swept(1, 0, 10)
    assert left(warehouse) == [("unused", 0)], "what was put meanwhile stays"

    def broken(self: lance.LanceDataset, condition: str) -> object:
        raise OSError("no route to the store")

    put(warehouse, "more", 30)
    monkeypatch.setattr(lance.LanceDataset, "delete", broken)
    with pytest.raises(StoreError, match="no route"):
        swept(warehouse)
