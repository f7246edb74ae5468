"""A page in the middle of a spool, or of its log, is garbage: that is said, the rest is read, and the other spools go on."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SpoolError
from stepwell.sdk.records import Step
from stepwell.spool import Entry, Spool, SpoolReader, read_cursor
from stepwell.warehouse import Warehouse

STEPS = 60
PAGE = 16384
FILL = {"filler": "x" * 5000}
"""Some three records to a page."""


def entry(name: str) -> Entry:
    step = Step(
        step_id=name,
        messages=[{"role": "user", "content": name}],
        response={"role": "assistant", "content": "ja"},
        metadata=FILL,
    )
    return Entry(id=f"step.{name}", kind="step", body=step.model_dump_json(exclude_none=True).encode())


def fill(spool: Spool, prefix: str = "", count: int = STEPS) -> None:
    """A transaction for each, so that the log has many."""
    for number in range(count):
        spool.append([entry(f"{prefix}{number}")])


def page_of_steps(path: Path) -> int:
    """Where in the file a page begins that holds some steps in the middle, and nothing else."""
    needle = f'"step_id":"{STEPS // 2}"'.encode()
    return path.read_bytes().rindex(needle) // PAGE * PAGE


def damage(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(os.urandom(PAGE))


def stored(warehouse: Warehouse) -> list[str]:
    """In the table itself: a view would hide what is double."""
    warehouse.refresh()
    rows = warehouse.tables["steps"].dataset.to_table(columns=["step_id"], filter="ledger IS NULL")
    return sorted(rows["step_id"].to_pylist())


def check_most_is_there(found: list[str], prefix: str = "") -> None:
    own = [name for name in found if name.startswith(prefix)]
    assert len(own) == len(set(own)), "nothing twice"
    assert STEPS - 5 <= len(own) < STEPS, "but for what was on the page"
    assert {f"{prefix}0", f"{prefix}{STEPS - 1}"} <= set(own), "before it and behind it"


def test_a_damaged_page_costs_what_is_on_it(
    spools: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    path = spools / "hurt.db"
    with Spool(path) as spool:
        fill(spool, "hurt-")
        producer = spool.producer
    place = path.read_bytes().rindex(f'"step_id":"hurt-{STEPS // 2}"'.encode()) // PAGE * PAGE
    damage(path, place)
    feed.step(step_id="other")
    with caplog.at_level(logging.ERROR):
        ingest()
    found = stored(warehouse)
    check_most_is_there(found, "hurt-")
    assert "other" in found, "other spools go on"
    assert str(path) in caplog.text
    assert "cannot be read" in caplog.text
    assert read_cursor(spools, producer) == STEPS, "and it is not looked at for ever"
    feed.step(step_id="later")
    ingest()
    assert stored(warehouse) == sorted([*found, "later"])


def test_a_producer_goes_on_with_a_new_spool_where_its_own_is_damaged(
    spools: Path, ingest: Callable[[], int], warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents' calls go by way of the producer: it must not stay down for that. What can be read of the old one is taken in, too."""
    path = spools / "p.db"
    with Spool(path) as spool:
        fill(spool)
    damage(path, page_of_steps(path))
    with pytest.raises(SpoolError, match=r"cannot open the spool .*p\.db"):
        Spool(path)
    with caplog.at_level(logging.ERROR), Spool(path, anew=True) as spool:
        assert f"the spool {path} is damaged" in caplog.text
        spool.append([entry("new")])
        ingest()
        check_most_is_there([name for name in stored(warehouse) if name != "new"])
        assert "new" in stored(warehouse)


def crashed(spools: Path, name: str) -> Path:
    """A spool whose producer died: a log is there, and nobody has the database open."""
    path = spools / f"{name}.db"
    alive = spools.parent / "alive"
    with Spool(alive / path.name) as spool:
        fill(spool)
        for file in (path.name, f"{path.name}-wal"):
            shutil.copy(alive / file, spools / file)
    return path


def test_records_that_a_damaged_log_takes_along_do_not_lend_their_numbers_to_others(
    spools: Path, ingest: Callable[[], int], warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    """Ingest has read them already; SQLite recovers the log up to the damage, and would begin from there."""
    path = crashed(spools, "p")
    kept = path.with_name("kept")
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{kept}{end}")
    ingest()
    assert len(stored(warehouse)) == STEPS
    for end in ("", "-wal"):
        shutil.copy(f"{kept}{end}", f"{path}{end}")
    path.with_name("p.db-shm").unlink(missing_ok=True)
    log = path.with_name("p.db-wal")
    damage(log, log.stat().st_size // 2)
    with caplog.at_level(logging.ERROR), Spool(path, anew=True) as spool:
        fill(spool, "new-", 3)
        ingest()
    assert "write-ahead log is damaged" in caplog.text
    assert {"new-0", "new-1", "new-2"} <= set(stored(warehouse))
    assert len(stored(warehouse)) == STEPS + 3, "nothing lost, nothing twice"


def test_a_damaged_log_of_a_dead_producer_costs_what_is_behind(
    spools: Path, feed: Any, ingest: Callable[[], int], warehouse: Warehouse
) -> None:
    path = crashed(spools, "p")
    log = path.with_name("p.db-wal")
    damage(log, log.stat().st_size // 2)
    feed.step(step_id="other")
    ingest()
    found = stored(warehouse)
    assert "other" in found
    assert 5 < len(found) < STEPS
    assert found == sorted([*(str(number) for number in range(len(found) - 1)), "other"])


@pytest.mark.parametrize("transaction", ["ended", "under way"])
def test_a_log_that_a_crash_left_is_no_damage(spools: Path, transaction: str) -> None:
    """Neither is one whose last transaction has no end: nobody was told that it is kept."""
    path = crashed(spools, "p")
    log = path.with_name("p.db-wal")
    if transaction == "under way":
        whole = log.read_bytes()
        frame = 24 + PAGE
        frames = [whole[at : at + frame] for at in range(32, len(whole), frame)]
        log.write_bytes(whole + frames[-1][:4] + bytes(4) + frames[-1][8:])
    with SpoolReader(path) as reader:
        producer = reader.producer
    with Spool(path, anew=True) as spool:
        assert spool.producer == producer
        assert spool.append([entry("next")]) == [STEPS + 1]


def test_a_file_that_is_no_database_any_more_is_set_aside(spools: Path) -> None:
    path = crashed(spools, "p")
    path.with_name("p.db-wal").unlink()
    damage(path, 0)
    with Spool(path, anew=True) as spool:
        assert spool.append([entry("next")]) == [1]
    assert len(list(spools.glob("p.damaged-*.db"))) == 1
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
