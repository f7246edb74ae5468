"""What the doctor says of spools and warehouse."""

from __future__ import annotations

import time
from pathlib import Path

import orjson
import pytest

from stepwell.cli import load_settings
from stepwell.cli._doctor_store import spools, store_findings
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return load_settings().spools


def test_what_waits_and_what_was_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [finding.status for finding in spools(folder, {})] == ["ok"]
    with Spool(folder / "proxy.db") as spool:
        spool.append([Entry(id=str(number), kind="step") for number in range(5)])
        spool.add_lost(3)
        producer = spool.producer
    waits, lost = spools(folder, {producer: 2})
    assert waits.status == "ok" and waits.message.startswith("3 records wait")
    assert lost.status == "warn" and lost.message.startswith("3 calls were lost")
    assert next(spools(folder, {producer: 5})).message == "0 records wait to be ingested"
    now = time.time() + 100
    monkeypatch.setattr(time, "time", lambda: now)
    assert next(spools(folder, {producer: 2})).status == "warn"


def test_a_spool_that_cannot_be_read(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "broken.db").write_bytes(b"no database" * 100)
    assert [finding.status for finding in spools(folder, {})] == ["bad", "ok"]


def test_the_warehouse(folder: Path) -> None:
    settings = load_settings()
    assert next(store_findings(settings)).status == "warn"
    with Spool(folder / "proxy.db") as spool:
        spool.append([Entry(id="1", kind="step", body=b"{}"), Entry(id="2", kind="odd", body=b"")])
        spool.append([Entry(id="3", kind="step", body=orjson.dumps({"messages": [], "response": "a"}))])
    Ingest(Warehouse.open(settings.warehouse_uri), folder).run_once()
    found = {finding.check: finding for finding in store_findings(settings)}
    assert found["warehouse"].message.endswith("holds 1 steps")
    assert found["quarantine"].status == "warn" and found["quarantine"].message.startswith("2 exchanges")
    assert found["spools"].message == "0 records wait to be ingested"


def test_a_warehouse_that_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "empty").mkdir()
    monkeypatch.setenv("STEPWELL_WAREHOUSE", str(place / "empty"))
    found = next(store_findings(load_settings()))
    assert found.status == "bad" and found.do
