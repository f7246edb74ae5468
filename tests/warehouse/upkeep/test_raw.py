"""Raw calls go when they are old enough; what could not be read, and the ledger's row, stay."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._upkeep.raw import expire

WORDS = "a sentence that no other file has"


@pytest.fixture
def kept(feed: Any, warehouse: Warehouse, spools: Path, drained: Any) -> Warehouse:
    """Three raw calls and one in quarantine."""
    for number in range(3):
        feed.exchange([{"role": "user", "content": f"{WORDS} {number}"}], id=f"c{number}")
    feed.answer(feed.request([{"role": "user", "content": "odd"}], id="odd"), b"<html>")
    drained(Ingest(warehouse, spools, raw=Raw("all")))
    return warehouse


def there(warehouse: Warehouse) -> list[str]:
    ids: list[str] = warehouse.query("SELECT exchange_id FROM exchanges ORDER BY 1")["exchange_id"].to_pylist()
    return ids


def test_only_what_is_old_goes(kept: Warehouse) -> None:
    table = kept.tables["exchanges"]
    assert expire(table, time.time() - 60) == 0
    assert expire(table, time.time() + 60, dry_run=True) == 3
    assert there(kept) == ["c0", "c1", "c2", "odd"]
    assert expire(table, time.time() + 60) == 3
    assert there(kept) == ["odd"]
    assert expire(table, time.time() + 60) == 0


def test_commits_go_on(kept: Warehouse, feed: Any, spools: Path, drained: Any) -> None:
    """The ledger's row, which is older than everything, is there as before."""
    expire(kept.tables["exchanges"], time.time() + 60)
    feed.exchange([{"role": "user", "content": "again"}], id="later")
    drained(Ingest(kept, spools, raw=Raw("all")))
    assert there(kept) == ["later", "odd"]


def test_somebody_else_came_first(kept: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    table = kept.tables["exchanges"]
    delete = type(table.dataset).delete
    failed: list[str] = []

    def conflicting(dataset: Any, condition: str) -> Any:
        if not failed:
            failed.append(condition)
            raise OSError("Commit conflict for version 3")
        return delete(dataset, condition)

    monkeypatch.setattr(type(table.dataset), "delete", conflicting)
    assert expire(table, time.time() + 60) == 3
    assert failed and there(kept) == ["odd"]


def test_maintenance_takes_their_bytes(kept: Warehouse, tmp_path: Path) -> None:
    def found() -> bool:
        files = (tmp_path / "warehouse" / "exchanges.lance").rglob("*.lance")
        return any(WORDS.encode() in file.read_bytes() for file in files)

    kept.maintain(keep=timedelta(0))
    assert found() and len(there(kept)) == 4, "nobody said how long raw calls are kept"
    said = kept.maintain(keep=timedelta(0), keep_raw=timedelta(0))
    assert said.raw == 3 and there(kept) == ["odd"]
    assert not found()
