"""Imported exchanges that do not get into the warehouse: nothing of them is lost. What gets there, `test_import` tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwell.cli import _import_delivery as delivery_module
from stepwell.cli import load_settings
from stepwell.cli._import_delivery import Delivery
from stepwell.errors import DeliveryError
from stepwell.exchange import Found, found_in_json
from stepwell.spool import ProcessLock, SpoolReader

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def found() -> Found:
    asked = {"method": "POST", "url": "https://api.openai.com/v1/chat/completions", "headers": {}, "body": {}}
    return found_in_json({"request": asked, "response": {"status": 200, "headers": {}, "body": {}}})


def kept(place: Path) -> int:
    with SpoolReader(place / "stepwell-data" / "spool" / "import.db") as reader:
        return len(reader.read(0))


def test_what_the_warehouse_does_not_take_is_kept(place: Path, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """The round fails, as with a store that is away: ingest says so in its log and goes home."""
    monkeypatch.setattr("stepwell.warehouse.run_ingest", lambda *_, **__: None)
    with Delivery(load_settings(), {}) as delivery:
        delivery.add(found)
        with pytest.raises(DeliveryError, match=r"did not take everything .*; what is left is kept"):
            delivery.finish()
    assert kept(place) == 2
    lock = ProcessLock(place / "stepwell-data" / "ingest-process.lock")
    assert lock.acquire()
    lock.release()


def test_an_ingest_that_does_not_get_on_is_not_waited_for_for_ever(
    place: Path, found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_module, "_PATIENCE", 0.1)
    with Delivery(load_settings(), {}) as delivery:
        delivery.add(found)
        lock = ProcessLock(place / "stepwell-data" / "ingest.lock")
        assert lock.acquire()
        try:
            with pytest.raises(DeliveryError, match="not committed after"):
                delivery.finish()
        finally:
            lock.release()
    assert kept(place) == 2


def test_an_ingest_that_gets_on_is_waited_for(place: Path, found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its patience is with each step forward, not with all of it."""
    with Delivery(load_settings(), {}) as delivery:
        marks = iter({delivery._spool.producer: number} for number in (0, 0, 1, 1, 2))
        monkeypatch.setattr(delivery_module, "_PATIENCE", 0.0)
        monkeypatch.setattr(delivery_module, "committed_in", lambda *_: lambda: next(marks))
        monkeypatch.setattr(Delivery, "_ingest_here", lambda *_: False)
        delivery.add(found)
        delivery.finish()
    assert kept(place) == 0
