"""A round of maintenance: fewer files, the same rows, the ledger unharmed, readers undisturbed, failures told."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._upkeep import maintain
from stepwell.warehouse._upkeep.maintain import Maintainer, size_of

FOREVER = timedelta(days=365)


def fill(feed: Any, worker: Ingest, rounds: int) -> list[str]:
    made = []
    for number in range(rounds):
        made.append(feed.step(trajectory_id="t", prompt_ids=[*range(30), number], response_ids=[number], reward=1.0))
        worker.run_once()
    return made


def maintainer(warehouse: Warehouse, **more: Any) -> Maintainer:
    return Maintainer(warehouse.uri, warehouse.tables, warehouse.storage_options, **more)


def step_ids(warehouse: Warehouse) -> list[str]:
    return sorted(warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist())


def test_the_rows_stay_and_the_work_goes_on(anywhere: Place, feed: Any, spools: Path) -> None:
    warehouse = anywhere.open()
    worker = Ingest(warehouse, spools)
    made = fill(feed, worker, 6)
    before = warehouse.steps().read_all().sort_by("step_id")
    said = warehouse.maintain(keep=timedelta(0))
    steps = warehouse.tables["steps"].dataset
    assert len(steps.get_fragments()) == 2, "one of rows, and the ledger row's"
    assert len(steps.versions()) == 1
    assert said.errors == [] and {done.error for done in said.tables.values()} == {None}
    assert said.tables["steps"].fragments == 5
    assert said.tables["steps"].versions > 5 and said.tables["steps"].removed > 0
    assert warehouse.steps().read_all().sort_by("step_id").equals(before)
    assert warehouse.marks() == {feed.producer: 6}
    made += fill(feed, worker, 3)
    reopened = anywhere.open(create=False)
    assert step_ids(reopened) == sorted(made)
    assert reopened.query("SELECT sum(step_reward) AS r FROM steps")["r"].to_pylist() == [9.0]
    assert reopened.marks() == {feed.producer: 9}
    assert reopened.tables["steps"].dataset.count_rows(filter="ledger IS NOT NULL") == 1


def test_every_byte_that_is_left_is_referred_to(local: Place, feed: Any, spools: Path) -> None:
    warehouse = local.open()
    fill(feed, Ingest(warehouse, spools), 6)
    said = warehouse.maintain(keep=timedelta(0))
    for name, table in warehouse.tables.items():
        there = {row["path"]: row["size_bytes"] for row in table.dataset.all_files().read_all().to_pylist()}
        used = set(table.dataset.tracked_files().read_all()["path"].to_pylist())
        assert sum(size for path, size in there.items() if path not in used) <= 0.05 * sum(there.values())
        assert said.tables[name].after == sum(there.values())
        assert (said.tables[name].before or 0) - said.tables[name].removed <= sum(there.values()) + 20_000


def test_repeated_maintenance(local: Place, feed: Any, spools: Path) -> None:
    """Deleted ledger rows never come back."""
    warehouse = local.open()
    worker, made = Ingest(warehouse, spools), []
    for _ in range(4):
        made += fill(feed, worker, 3)
        warehouse.maintain(keep=timedelta(0))
        for table in warehouse.tables.values():
            assert table.dataset.count_rows(filter="ledger IS NOT NULL") == 1
    assert step_ids(warehouse) == sorted(made)


def test_a_dry_run_says_it_all_and_changes_nothing(local: Place, feed: Any, spools: Path) -> None:
    warehouse = local.open()
    fill(feed, Ingest(warehouse, spools), 4)
    versions = {name: table.dataset.latest_version for name, table in warehouse.tables.items()}
    sizes = {name: size_of(table.dataset) for name, table in warehouse.tables.items()}
    said = warehouse.maintain(keep=timedelta(0), dry_run=True)
    assert said.tables["steps"].fragments == 4
    assert said.tables["steps"].versions == versions["steps"] - 1
    assert said.tables["steps"].before == sizes["steps"] and said.tables["steps"].after is None
    assert {name: table.dataset.latest_version for name, table in warehouse.tables.items()} == versions
    assert {name: size_of(table.dataset) for name, table in warehouse.tables.items()} == sizes


def test_a_reader_goes_on_meanwhile(local: Place, feed: Any, spools: Path) -> None:
    """One that opened before still reads its version, and the newest when it looks again."""
    warehouse, reader = local.open(), local.open()
    worker = Ingest(warehouse, spools)
    fill(feed, worker, 5)
    reader.refresh()
    old = reader.tables["steps"].dataset
    warehouse.maintain()
    assert old.to_table(filter="ledger IS NULL").num_rows == 5
    fill(feed, worker, 1)
    assert len(step_ids(reader)) == 6


def test_a_version_is_kept_from_when_it_stopped_being_the_newest(local: Place, feed: Any, spools: Path) -> None:
    """Two hours without a commit, then one: who reads what was the newest until then has its hour still."""
    warehouse = local.open()
    worker = Ingest(warehouse, spools)
    fill(feed, worker, 2)
    time.sleep(0.3)
    old, idle = warehouse.tables["steps"].dataset, time.time()
    fill(feed, worker, 1)
    later = maintainer(warehouse, keep=timedelta(hours=1), now=lambda: idle + 3600, many=2)
    assert later.round().tables["steps"].versions > 0, "those before it go"
    assert old.to_table(filter="ledger IS NULL").num_rows == 2
    assert (
        maintainer(warehouse, keep=timedelta(hours=1), now=lambda: time.time() + 3601).round().tables["steps"].versions
        > 0
    )


def test_a_tagged_version_stays(local: Place, feed: Any, spools: Path) -> None:
    warehouse = local.open()
    worker = Ingest(warehouse, spools)
    fill(feed, worker, 2)
    steps = warehouse.tables["steps"].dataset
    steps.tags.create("mine", steps.version)
    fill(feed, worker, 2)
    said = warehouse.maintain(keep=timedelta(0))
    assert said.tables["steps"].error is None
    assert steps.checkout_version("mine").count_rows(filter="ledger IS NULL") == 2


def test_only_what_needs_it(local: Place, feed: Any, spools: Path) -> None:
    warehouse = local.open()
    fill(feed, Ingest(warehouse, spools), 3)
    versions = {name: table.dataset.latest_version for name, table in warehouse.tables.items()}
    said = maintainer(warehouse).round()
    assert {done.fragments for done in said.tables.values()} == {0}
    assert {name: table.dataset.latest_version for name, table in warehouse.tables.items()} == versions
    said = maintainer(warehouse, many=3).round()
    assert {name for name, done in said.tables.items() if done.fragments} == {"steps", "events", "commits"}


def test_tables_that_others_write_are_looked_at_anew(local: Place, feed: Any, spools: Path) -> None:
    warehouse, user = local.open(), local.open()
    fill(feed, Ingest(warehouse, spools), 1)
    for _ in range(3):
        user.datasets.create("d")
    assert maintainer(warehouse, many=3).round().tables["datasets"].fragments == 2
    assert [item.version for item in user.datasets.list()] == [1, 2, 3]


def test_a_failure_is_told_and_the_other_tables_are_tended(
    local: Place, feed: Any, spools: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = local.open()
    fill(feed, Ingest(warehouse, spools), 3)
    from stepwell.warehouse._upkeep.compact import compact

    def fail(table: Any, **more: Any) -> int:
        if table.spec.name == "steps":
            raise StoreError("the store is slow")
        return compact(table, **more)

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(maintain, "compact", fail)
        said = warehouse.maintain()
    assert said.tables["steps"].error == "the store is slow"
    assert said.tables["events"].fragments == 2
    assert "steps.lance failed, and is tried again later: the store is slow" in caplog.text
    assert warehouse.maintain().tables["steps"].fragments == 2


def test_it_ends_when_told_to(local: Place, feed: Any, spools: Path) -> None:
    warehouse = local.open()
    fill(feed, Ingest(warehouse, spools), 3)
    said = maintainer(warehouse, many=2, stop=lambda: True).round()
    assert {done.fragments for done in said.tables.values()} == {0}
