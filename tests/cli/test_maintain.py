"""`stepwell maintain`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.cli import main
from stepwell.cli._maintain import size

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def warehouse(place: Path) -> Path:
    """The default warehouse, with three commits of events."""
    from stepwell.warehouse import Warehouse

    folder = place / "stepwell-data" / "warehouse"
    events = Warehouse.open(folder).tables["events"]
    for number in range(3):
        row = pa.Table.from_pylist([{"event_id": f"e{number}"}], schema=events.spec.schema)
        events.add(partial(pa.Table.from_batches, row.to_batches()))
    return folder


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_it_did_is_said(warehouse: Path, capfd: Any) -> None:
    before = bytes_of(warehouse)
    assert main(["maintain", "--keep", "0"]) == 0
    out = capfd.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("events"))
    assert "2 fragments merged" in line and "old versions" in line and "→" in line
    assert bytes_of(warehouse) < before
    assert main(["maintain", "--keep", "0"]) == 0
    assert "merged" not in capfd.readouterr().out


def test_a_dry_run_changes_nothing(warehouse: Path, capfd: Any) -> None:
    before = bytes_of(warehouse)
    assert main(["maintain", "--dry-run", "--keep", "0"]) == 0
    assert "3 fragments to merge" in capfd.readouterr().out
    assert bytes_of(warehouse) == before


def test_versions_are_kept_for_an_hour_or_as_set(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    assert main(["maintain", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["tables"]["events"]["versions"] == 0
    assert set(said) == {"dry_run", "tables", "payloads", "datasets", "raw", "litter", "errors"}
    monkeypatch.setenv("STEPWELL_INGEST__KEEP_VERSIONS", "0")
    assert main(["maintain", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)["tables"]["events"]
    assert said["versions"] > 0
    assert said["after"] < said["before"]


def test_what_could_not_be_done_is_1(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    from stepwell.errors import StoreError
    from stepwell.warehouse._upkeep import maintain

    def fail(*_: object, **__: object) -> int:
        raise StoreError("the disk is full")

    monkeypatch.setattr(maintain, "compact", fail)
    assert main(["maintain"]) == 1
    assert "error: the disk is full" in capfd.readouterr().out


def test_where_there_is_no_warehouse(place: Path, capfd: Any) -> None:
    assert main(["maintain"]) == 2
    assert "no warehouse" in capfd.readouterr().err
    assert not (place / "stepwell-data").exists()


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "?"), (0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**15, "3000.0 TB")],
)
def test_sizes(number: int | None, text: str) -> None:
    assert size(number) == text
