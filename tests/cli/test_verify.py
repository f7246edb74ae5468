"""`stepwell verify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.cli import main

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


@pytest.fixture
def warehouse(place: Path) -> Path:
    from stepwell.warehouse import Warehouse

    folder = place / "stepwell-data" / "warehouse"
    steps = Warehouse.open(folder).tables["steps"]
    steps.add(lambda: pa.Table.from_pylist([{"step_id": "s", "trajectory_id": "t"}], schema=steps.spec.schema))
    return folder


def test_a_whole_one(warehouse: Path, capfd: Any) -> None:
    assert main(["verify"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1] == "whole: commit 0, 0 datasets"
    assert any(line.startswith("ok    steps         1 rows, 2 fragments, 2 versions; ") for line in lines)


def test_a_fault_is_one_line_and_1(warehouse: Path, capfd: Any) -> None:
    for path in (warehouse / "steps.lance" / "data").iterdir():
        path.write_bytes(path.read_bytes()[:-10])
    assert main(["verify", "--json"]) == 1
    said = json.loads(capfd.readouterr().out)
    assert said["ok"] is False and said["deep"] is False
    assert {finding["where"] for finding in said["findings"]} == {str(warehouse / "steps.lance")}
    assert set(said["tables"]) >= {"steps", "events", "commits"}
    assert main(["verify", "--deep"]) == 1
    out = capfd.readouterr().out.splitlines()
    assert out[0].startswith(f"bad   {warehouse}/steps.lance: the file data/") and " → " in out[0]
    assert "faults: commit 0" in out[-1]


def test_where_there_is_no_warehouse(place: Path, capfd: Any) -> None:
    assert main(["verify"]) == 2
    assert "no warehouse" in capfd.readouterr().err


def test_an_older_one_names_the_way(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    from stepwell.warehouse._tables import table as _table

    monkeypatch.setattr(_table, "SCHEMA_VERSION", 3)
    assert main(["verify"]) == 2
    assert "`stepwell migrate`" in capfd.readouterr().err
