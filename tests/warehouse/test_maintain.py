"""Compaction and cleaning: fewer files, the same rows, the ledger unharmed, readers undisturbed."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stepwell.warehouse import Ingest
from stepwell.warehouse._maintain import maintain


def fill(feed: Any, worker: Ingest, rounds: int) -> list[str]:
    made = []
    for number in range(rounds):
        made.append(feed.step(trajectory_id="t", prompt_ids=[*range(30), number], response_ids=[number], reward=1.0))
        worker.run_once()
    return made


def test_the_rows_stay_and_the_work_goes_on(anywhere: Any, feed: Any, spools: Path, drained: Any) -> None:
    warehouse = anywhere.open()
    worker = Ingest(warehouse, spools)
    made = fill(feed, worker, 6)
    before = warehouse.steps().sort_by("step_id")
    warehouse.maintain(keep=timedelta(0))
    steps = warehouse.tables["steps"].dataset
    assert len(steps.get_fragments()) == 1
    assert len(steps.versions()) == 1
    assert warehouse.steps().sort_by("step_id").equals(before)
    assert warehouse.marks() == {feed.producer: 6}
    made += fill(feed, worker, 3)
    reopened = anywhere.open(create=False)
    assert sorted(reopened.query("SELECT step_id FROM steps")["step_id"].to_pylist()) == sorted(made)
    assert reopened.query("SELECT sum(step_reward) AS r FROM steps")["r"].to_pylist() == [9.0]
    assert reopened.marks() == {feed.producer: 9}
    assert reopened.tables["steps"].dataset.count_rows(filter="ledger IS NOT NULL") == 1


def test_repeated_maintenance(local: Any, feed: Any, spools: Path) -> None:
    """Deleted ledger rows never come back."""
    warehouse = local.open()
    worker, made = Ingest(warehouse, spools), []
    for _ in range(4):
        made += fill(feed, worker, 3)
        warehouse.maintain(keep=timedelta(0))
        for table in warehouse.tables.values():
            assert table.dataset.count_rows(filter="ledger IS NOT NULL") == 1
    assert sorted(warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist()) == sorted(made)


def test_a_reader_goes_on_meanwhile(local: Any, feed: Any, spools: Path) -> None:
    """One that opened before still reads its version, and the newest when it looks again."""
    warehouse, reader = local.open(), local.open()
    worker = Ingest(warehouse, spools)
    fill(feed, worker, 5)
    reader.refresh()
    old = reader.tables["steps"].dataset
    maintain(warehouse.tables.values(), fragments=2)
    assert old.to_table(filter="ledger IS NULL").num_rows == 5
    fill(feed, worker, 1)
    assert reader.query("SELECT * FROM steps").num_rows == 6


def test_only_what_needs_it(local: Any, feed: Any, spools: Path) -> None:
    warehouse = local.open()
    fill(feed, Ingest(warehouse, spools), 3)
    versions = {name: table.dataset.latest_version for name, table in warehouse.tables.items()}
    assert maintain(warehouse.tables.values()) == 0
    assert {name: table.dataset.latest_version for name, table in warehouse.tables.items()} == versions
    assert maintain(warehouse.tables.values(), fragments=3) == 3, "steps, events, commits"


def test_tables_that_others_write_are_looked_at_anew(local: Any, feed: Any, spools: Path) -> None:
    warehouse, user = local.open(), local.open()
    fill(feed, Ingest(warehouse, spools), 1)
    for _ in range(3):
        user.datasets.create("d")
    assert maintain([warehouse.tables["datasets"]], fragments=3) == 1
    assert [item.version for item in user.datasets.list()] == [1, 2, 3]


def test_a_failure_is_said_and_tried_again(
    local: Any, feed: Any, spools: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from stepwell.warehouse import _maintain

    warehouse = local.open()
    worker = Ingest(warehouse, spools)
    fill(feed, worker, 3)

    def fail(*_: Any) -> None:
        raise OSError("store is slow")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(_maintain, "_compact", fail)
        assert maintain(warehouse.tables.values(), fragments=2) == 0
    assert "steps.lance failed, and is tried again later: store is slow" in caplog.text
    assert maintain(warehouse.tables.values(), fragments=2) == 3
