"""Ingest removes the spools of dead producers, once all they held is in the warehouse for good."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest.retiring import EVERY, Retiring


def aged(folder: Path) -> None:
    for file in folder.iterdir():
        os.utime(file, (1, 1))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.db"))


def test_only_the_dead_ones(new_feed: Any, warehouse: Warehouse, spools: Path, drained: Any) -> None:
    dead, living = new_feed("dead"), new_feed("living")
    dead.step(step_id="a")
    living.step(step_id="b")
    dead.close()
    drained(Ingest(warehouse, spools))
    aged(spools)
    worker = Ingest(warehouse, spools)
    drained(worker)
    assert worker.settle() and names(spools) == ["living.db"]
    living.step(step_id="c")
    again = new_feed("dead")
    assert again.producer != dead.producer
    again.step(step_id="d")
    drained(worker)
    steps = warehouse.query("SELECT step_id FROM steps ORDER BY 1")["step_id"].to_pylist()
    assert steps == ["a", "b", "c", "d"]


def test_not_before_the_warehouse_has_it_for_good(
    new_feed: Any, warehouse: Warehouse, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut must find in the spool what the disk does not have yet."""
    from stepwell.warehouse._store.durable import Durable

    def failing(_: Durable) -> None:
        raise OSError("the disk does not take it")

    with monkeypatch.context() as patch:
        patch.setattr(Durable, "settle", failing)
        dead = new_feed("dead")
        dead.step(step_id="a")
        dead.close()
        worker = Ingest(warehouse, spools)
        drained(worker)
        aged(spools)
        worker._retiring._looked = -EVERY
        assert worker.settle() and names(spools) == ["dead.db"]
    drained(Ingest(warehouse, spools))
    assert names(spools) == []


def test_it_looks_once_a_minute_and_passes_over_what_is_broken(
    new_feed: Any, spools: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (spools / "a-broken.db").write_bytes(b"broken" * 1000)
    feeds = [new_feed(name) for name in ("one", "two")]
    for feed in feeds:
        feed.step(step_id=feed.producer)
        feed.close()
    aged(spools)
    now = [0.0]
    retiring = Retiring(spools, lambda: now[0])
    retiring.look({feeds[0].producer: 1})
    assert names(spools) == ["a-broken.db", "two.db"]
    assert "a-broken.db" in caplog.text
    now[0] = EVERY - 1
    retiring.look({feeds[1].producer: 1})
    assert names(spools) == ["a-broken.db", "two.db"]
    now[0] = EVERY
    retiring.look({feeds[1].producer: 1})
    assert names(spools) == ["a-broken.db"]
