"""What a warehouse takes."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.filled import fill

from stepwell.warehouse import Warehouse


def test_rows_and_files_are_those_of_the_tables(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path)
    fill(warehouse, 2, 30, 3)
    tables = {table["table"]: table for table in warehouse.storage()}
    assert {name: table["rows"] for name, table in tables.items() if table["rows"]} == {
        "steps": 60,
        "events": 6,
        "commits": 4,
    }
    for name, table in tables.items():
        data = sum(file.stat().st_size for file in (tmp_path / f"{name}.lance" / "data").glob("*"))
        assert (
            data <= table["bytes"] <= data + sum(f.stat().st_size for f in (tmp_path / f"{name}.lance").rglob("_*/*"))
        )
        assert table["versions"] >= 1 and table["pins"] == [] and table["indices"] == []
    assert tables["steps"]["version"] > tables["payloads"]["version"]
