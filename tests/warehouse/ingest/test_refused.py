"""A flush that was refused after its writer had died: its records are still in the spool, and whoever drains that plans them again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest.tombstones import bury
from stepwell.warehouse._store.flush import Inbox
from stepwell.warehouse._store.objects import objects_at

DAYS = 2 * 24 * 3600.0


@pytest.fixture
def left(
    feed: Any, local: Any, spools: Path, tmp_path: Path, drained: Any
) -> Callable[[str, pytest.MonkeyPatch], Warehouse]:
    """What a writer announced in two flushes before it died; of which a committer elsewhere has refused what it may not take."""

    def die(why: str, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
        warehouse: Warehouse = local.open()
        dead = Ingest(warehouse, spools)
        with monkeypatch.context() as patch:
            if why == "it is too old":
                clock = time.time
                patch.setattr(time, "time", lambda: clock() - DAYS)
            for number in range(2):
                feed.step(step_id=f"s{number}", trajectory_id="t", reward=1.0)
                assert dead.flush() == 1
        if why == "something was forgotten":
            bury(warehouse.tables["forgotten"], {"trajectory": ["another"]})
        inbox = Inbox(objects_at(warehouse.uri, {}))
        assert len(inbox.keys(dead.writer)) == 2
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        other = Ingest(local.open(), elsewhere)
        drained(other)
        other.close()
        assert len(inbox.keys(dead.writer)) < 2, "it was refused"
        assert warehouse.marks() == {}
        return warehouse

    return die


@pytest.mark.parametrize("why", ["it is too old", "something was forgotten"])
@pytest.mark.parametrize("journal", ["is there", "is gone", "is damaged"])
def test_its_records_come_again_and_once(
    left: Any,
    feed: Any,
    local: Any,
    spools: Path,
    drained: Any,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
    journal: str,
) -> None:
    warehouse = left(why, monkeypatch)
    if journal == "is gone":
        (spools / "ingest.json").unlink()
    elif journal == "is damaged":
        (spools / "ingest.json").write_bytes(b"{")
    feed.step(step_id="s2", trajectory_id="t")
    drained(Ingest(local.open(), spools))
    assert warehouse.marks() == {feed.producer: 3}
    steps = warehouse.query("SELECT step_id, parent_id FROM steps ORDER BY sequence").to_pylist()
    assert [step["step_id"] for step in steps] == ["s0", "s1", "s2"]
    assert warehouse.query("SELECT event_id FROM events").num_rows == 2
    assert Inbox(objects_at(warehouse.uri, {})).keys() == []


def test_by_the_writer_itself_as_well(feed: Any, local: Any, spools: Path, tmp_path: Path, drained: Any) -> None:
    """It lives, and another process commits."""
    warehouse = local.open()
    writer = Ingest(local.open(), spools)
    feed.step(step_id="s0", trajectory_id="t")
    writer.flush()
    bury(warehouse.tables["forgotten"], {"trajectory": ["another"]})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = Ingest(local.open(), elsewhere)
    drained(other)
    other.close()
    writer._looked -= 60.0  # it looks for what is not committed after a while
    drained(writer)
    drained(writer)
    assert warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist() == ["s0"]
