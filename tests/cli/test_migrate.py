"""`stepwell migrate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.spool import ProcessLock

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def migrated(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the work was asked for, in place of the work."""
    from stepwell.warehouse._migrate import migrate as _migrate

    asked: list[dict[str, Any]] = []

    def migrate(root: str, options: dict[str, str], *, dry_run: bool, say: Any) -> list[str]:
        asked.append({"root": root, "dry_run": dry_run})
        if not dry_run:
            say("steps")
        return ["steps"]

    monkeypatch.setattr(_migrate, "migrate", migrate)
    return asked


def test_one_that_is_up_to_date(warehouse: Path, capfd: Any) -> None:
    assert main(["migrate"]) == 0
    assert capfd.readouterr().out == "up to date\n"
    assert main(["migrate", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"dry_run": False, "tables": []}


def test_what_is_done_is_said(warehouse: Path, migrated: list[dict[str, Any]], capfd: Any) -> None:
    assert main(["migrate"]) == 0
    assert capfd.readouterr().out == "steps is done\n"
    assert main(["migrate", "--dry-run"]) == 0
    assert capfd.readouterr().out == "of an older schema: steps\n"
    assert main(["migrate", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"dry_run": False, "tables": ["steps"]}
    assert [one["dry_run"] for one in migrated] == [False, True, False]
    assert {one["root"] for one in migrated} == {str(warehouse)}


def test_not_beside_an_ingest_of_this_folder(warehouse: Path, migrated: list[dict[str, Any]], capfd: Any) -> None:
    lock = ProcessLock(warehouse.parent / "ingest.lock")
    assert lock.acquire(0)
    try:
        assert main(["migrate"]) == 2
    finally:
        lock.release()
    assert "an ingest works on" in capfd.readouterr().err
    assert migrated == []


def test_where_there_is_no_warehouse(place: Path, capfd: Any) -> None:
    assert main(["migrate"]) == 1
    assert "cannot open the table" in capfd.readouterr().err
    assert not (place / "stepwell-data").exists()
