"""The ledger row is found wherever it lies, mostly with a single look."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest

from stepwell.errors import StoreError
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.ledger_row import find, is_ledger
from stepwell.warehouse._tables.schema import COMMITS


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"commit_id": str(n), "commit": n} for n in numbers], schema=COMMITS.schema)


@pytest.fixture
def table(local: Any) -> LedgerTable:
    return LedgerTable(COMMITS, local.uri, local.options)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Looks through a whole table."""
    real, seen = lance.LanceDataset.to_table, list[str]()

    def to_table(self: lance.LanceDataset, *args: Any, **named: Any) -> pa.Table:
        seen.append(self.uri)
        return real(self, *args, **named)

    monkeypatch.setattr(lance.LanceDataset, "to_table", to_table)
    return seen


def test_of_a_new_table_and_after_commits(table: LedgerTable, scans: list[str]) -> None:
    assert find(table.dataset, COMMITS).marks == {}
    table.commit(rows(1), {"p": 1}, 4)  # of a single row as well
    table.commit(rows(2, 3), {"p": 3}, 5)
    found = find(table.dataset, COMMITS)
    assert (found.alone, found.marks, found.commit) == (True, {"p": 3}, 5)
    assert scans == [], "without looking through the table"


def test_compaction_of_the_rest_makes_no_difference(table: LedgerTable, scans: list[str]) -> None:
    for number in range(1, 5):
        table.commit(rows(number), {"p": number})
    home = find(table.dataset, COMMITS).fragment
    table.dataset.optimize.compact_files(excluded_fragment_ids=[home])
    table.refresh()
    scans.clear()
    newest = max(one.fragment_id for one in table.dataset.get_fragments())
    found = find(table.dataset, COMMITS)
    assert (found.fragment, found.alone, found.marks) == (home, True, {"p": 4})
    assert newest > home, "it is not the newest one any more"
    assert scans == []


@pytest.mark.parametrize("later", [rows(9), rows(9, 10)])
def test_among_data_rows(table: LedgerTable, later: pa.Table) -> None:
    """As a compaction with plain Lance leaves it, with a fragment after it that is none of ours."""
    for number in range(1, 4):
        table.commit(rows(number), {"p": number}, 7)
    table.dataset.optimize.compact_files()
    lance.write_dataset(later, table.uri, mode="append")
    table.refresh()
    found = find(table.dataset, COMMITS)
    assert (found.alone, found.marks, found.commit) == (False, {"p": 3}, 7)
    table.commit(rows(4), {"p": 4}, 8)
    assert table.dataset.count_rows(is_ledger(COMMITS)) == 1
    assert table.dataset.count_rows() == 4 + later.num_rows + 1
    assert find(table.dataset, COMMITS).alone


def test_a_table_without_one(table: LedgerTable) -> None:
    table.dataset.delete(is_ledger(COMMITS))
    table.refresh()
    with pytest.raises(StoreError, match="lost its ledger row"):
        find(table.dataset, COMMITS)
