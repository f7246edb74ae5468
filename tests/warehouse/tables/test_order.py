"""Commits order rows first; the numbers of several producers mean nothing to each other."""

from __future__ import annotations

import pyarrow as pa

from stepwell.warehouse import Warehouse
from stepwell.warehouse._ingest.rows import rows_of
from stepwell.warehouse._tables.order import in_order
from stepwell.warehouse._tables.schema import COMMITS


def test_by_commit_then_producer_number_and_id(warehouse: Warehouse) -> None:
    spans = [(1, "q", 0, 5), (2, "p", 0, 9), (2, "q", 5, 6)]
    rows = [
        {"commit_id": f"{commit}.{producer}", "commit": commit, "producer": producer, "after": after, "sequence": upto}
        for commit, producer, after, upto in spans
    ]
    warehouse.tables["commits"].commit(rows_of(COMMITS, rows), {"p": 9, "q": 6})
    told = [
        ("p", 9, "b"),
        ("q", 7, "late"),
        ("q", 6, "c"),
        ("p", 9, "a"),
        ("p", 1, "z"),
        ("q", 5, "x"),
        ("p", 10, "new"),
    ]
    columns = [list(column) for column in zip(*told, strict=True)]
    table = pa.table(dict(zip(("producer", "sequence", "step_id"), columns, strict=True)))
    found = in_order(table, "step_id", warehouse.tables["commits"].dataset)
    assert found["step_id"].to_pylist() == ["x", "z", "a", "b", "c", "new", "late"]
