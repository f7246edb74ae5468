"""Indices: when they are made and extended, that commits stay right with them, and that look-ups use them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.stores import Place

from stepwell.errors import CommitConflict
from stepwell.warehouse._restore import read
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import STEPS, TABLES
from stepwell.warehouse._upkeep.compact import compact
from stepwell.warehouse._upkeep.indices import INDICES, WORTH, lacking, make


def rows(start: int, count: int) -> pa.Table:
    made = [
        {
            "step_id": f"s{number}",
            "trajectory_id": f"t{number // 10}",
            "status": "ok" if number % 3 else "error",
            "policy_version": number // 100,
            "tags": ["odd"] if number % 2 else None,
            "response": f'{{"role":"assistant","content":[{{"type":"text","text":"answer number{number}"}}]}}',
            "producer": "p",
            "sequence": number,
        }
        for number in range(start, start + count)
    ]
    return pa.Table.from_pylist(made, schema=STEPS.schema)


def add(table: LedgerTable, start: int, count: int) -> None:
    table.refresh()
    table.commit(rows(start, count), {"p": start + count - 1})


def indexed(place: Place, count: int = 100) -> LedgerTable:
    table = LedgerTable(STEPS, place.uri, place.options)
    add(table, 1, count)
    make_all(table)
    return table


def make_all(table: LedgerTable) -> None:
    for column, name in lacking(table.dataset, "steps", worth=10).items():
        make(table.dataset, "steps", column, name)
        table.refresh()


def test_columns_are_those_of_the_schema() -> None:
    schemas = {spec.name: spec.schema for spec in TABLES}
    assert [
        (table, column) for table in INDICES for column in INDICES[table] if column not in schemas[table].names
    ] == []


def test_a_small_table_needs_none(local: Place) -> None:
    table = LedgerTable(STEPS, local.uri, local.options)
    add(table, 1, 50)
    assert lacking(table.dataset, "steps") == {}
    assert set(lacking(table.dataset, "steps", worth=51)) == set(INDICES["steps"]), "the ledger row counts, too"
    assert lacking(table.dataset, "commits", worth=1) == {}
    assert WORTH >= 1000


def test_each_is_made_once_and_extended_when_the_tail_has_grown(anywhere: Place) -> None:
    table = indexed(anywhere)
    assert lacking(table.dataset, "steps", worth=10) == {}
    add(table, 101, 10)
    assert lacking(table.dataset, "steps", worth=10) == {}, "a tenth is scanned"
    add(table, 111, 10)
    behind = lacking(table.dataset, "steps", worth=10)
    assert set(behind) == set(INDICES["steps"]) - {"messages_suffix", "response"}
    assert None not in behind.values()
    make_all(table)
    assert lacking(table.dataset, "steps", worth=10) == {}
    assert {index.name for index in table.dataset.describe_indices()} == {
        f"{column}_idx" for column in INDICES["steps"]
    }


def test_commits_and_indices(anywhere: Place) -> None:
    """Commits over indices that were made meanwhile land once; stale ones conflict; what is found is right all along."""
    other = LedgerTable(STEPS, anywhere.uri, anywhere.options)
    table = indexed(anywhere)
    with pytest.raises(CommitConflict):
        other.commit(rows(1, 100), {"p": 100})
    other.refresh()
    for column in ("step_id", "status"):
        make(table.dataset, "steps", column, f"{column}_idx")
    other.commit(rows(101, 30), {"p": 130})  # it has not seen the new indices
    table.refresh()
    check(table, 130)
    make_all(table)
    add(other, 131, 30)
    compact(table, many=2)
    check(table, 160)
    make_all(table)
    compact(table, many=2, full=True)
    add(other, 161, 5)
    check(table, 165)
    table.refresh()
    assert table.marks() == {"p": 165}


def check(table: LedgerTable, count: int) -> None:
    table.refresh()
    dataset = table.dataset
    assert dataset.count_rows(filter="ledger IS NOT NULL") == 1
    assert dataset.count_rows(filter="step_id = '__ledger__'") == 1
    for number in (1, 50, 99, 100, 101, count):
        assert dataset.count_rows(filter=f"step_id = 's{number}'") == (1 if number <= count else 0)
    assert dataset.count_rows(filter="status = 'error'") == count // 3
    assert dataset.count_rows(filter="array_has(tags, 'odd')") == (count + 1) // 2
    assert dataset.count_rows(filter="policy_version = 1") == max(0, min(count, 199) - 99)
    assert read.matching(dataset, "trajectory_id", ["t3"], ["step_id"]).num_rows == 10


def test_looking_up_uses_them(local: Place) -> None:
    table = indexed(local)
    for condition in (
        "step_id IN ('s1', 's2')",
        "trajectory_id IN ('t1')",
        "status = 'error'",
        "policy_version >= 1",
        "array_has(tags, 'odd')",
    ):
        plan = table.dataset.scanner(columns=["step_id"], filter=condition).explain_plan(True)
        assert "ScalarIndexQuery" in plan or "MaterializeIndex" in plan, condition
