"""Compaction: what is merged, when, and that commits and it never get into each other's way."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lance.optimize import Compaction
from tests.stores import Place

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import EVENTS
from stepwell.warehouse._upkeep import compact as compaction
from stepwell.warehouse._upkeep.compact import SMALL, Fragment, chosen, compact, fragments_of, piece_rows, wanted


def rows(start: int, count: int) -> pa.Table:
    made = [{"event_id": f"e{number}", "producer": "p", "sequence": number} for number in range(start, start + count)]
    return pa.Table.from_pylist(made, schema=EVENTS.schema)


def filled(place: Place, commits: int, each: int = 3) -> LedgerTable:
    table = LedgerTable(EVENTS, place.uri, place.options)
    for number in range(commits):
        add(table, number * each + 1, each)
    return table


def add(table: LedgerTable, start: int, count: int = 3) -> None:
    table.refresh()
    table.commit(rows(start, count), {"p": start + count - 1})


def held(table: LedgerTable) -> list[int]:
    table.refresh()
    everything = table.dataset.to_table(columns=["sequence", "ledger"]).to_pylist()
    assert sum(row["ledger"] is not None for row in everything) == 1
    return sorted(row["sequence"] for row in everything if row["ledger"] is None)


def sizes(*counts: int, deleted: int = 0) -> list[Fragment]:
    return [Fragment(number, count, deleted, count * 100) for number, count in enumerate(counts)]


def test_small_ones_are_always_merged() -> None:
    assert [one.rows for one in chosen(sizes(300, 10, SMALL, 5, 700))] == [300, 10, SMALL, 5, 700]


def test_a_large_one_waits_until_as_much_is_newer() -> None:
    assert [one.rows for one in chosen(sizes(100_000, 10, 10))] == [10, 10]
    assert [one.rows for one in chosen(sizes(100_000, 60_000, 50_000, 10_000, 4000))] == [100_000, 60_000, 4000]
    assert [one.rows for one in chosen(sizes(100_000, 10, 10), full=True)] == [100_000, 10, 10]


def test_each_row_is_written_anew_a_few_times_only() -> None:
    """200,000 commits of 10 rows, compacted at each hundredth: a row moves about as often as the table doubles."""
    there: list[int] = []
    moved = 0
    for _ in range(2000):
        there += [10] * 100
        merged = {one.id for one in chosen(sizes(*there))}
        total = sum(there[place] for place in merged)
        moved += total
        there = [count for place, count in enumerate(there) if place not in merged]
        there.append(total)
    assert len(there) < 20
    assert moved < 14 * sum(there)


def test_a_finished_one_is_left_alone_unless_much_of_it_is_deleted() -> None:
    assert [one.rows for one in chosen(sizes(1 << 20, 10), full=True)] == [10]
    assert [one.rows for one in chosen(sizes(1 << 20, deleted=200_000))] == [1 << 20]


def test_how_large_a_piece_is() -> None:
    assert piece_rows([]) == 1024
    assert piece_rows([Fragment(0, 10, 0, 1000)]) == 1 << 20
    assert piece_rows([Fragment(0, 100, 0, 100 << 20)]) == 1024, "rows of a megabyte"
    assert piece_rows([Fragment(0, 1 << 20, 0, 4 << 30)]) == 1 << 17


def test_many_become_one_beside_the_ledger_row(anywhere: Place) -> None:
    table = filled(anywhere, 5)
    assert len(wanted(table, many=5)) == 5
    assert wanted(table, many=6) == []
    assert compact(table, many=6) == 0
    assert compact(table, many=2) == 4
    assert sorted(one.rows for one in fragments_of(table.dataset)) == [1, 15]
    assert held(table) == list(range(1, 16))
    add(table, 16)
    assert held(table) == list(range(1, 19)) and table.marks() == {"p": 18}


def test_a_commit_in_between_conflicts_with_nothing(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compacting has read its version, then somebody commits, then it commits: both land, at the first attempt."""
    table, other = filled(local, 6), filled(local, 0)
    plan: Any = Compaction.plan

    def late(dataset: object, options: object) -> object:
        planned = plan(dataset, options)
        add(other, 19)
        add(other, 22)
        return planned

    monkeypatch.setattr(Compaction, "plan", late)
    monkeypatch.setattr(compaction, "_ATTEMPTS", 1)
    assert compact(table, many=2) > 0
    assert held(table) == list(range(1, 25))
    add(other, 25)
    assert held(table) == list(range(1, 28))


def test_a_stale_commit_conflicts_after_compaction_too(local: Place) -> None:
    table, stale = filled(local, 4), filled(local, 0)
    add(table, 13)
    compact(table, many=2)
    with pytest.raises(CommitConflict):
        stale.commit(rows(13, 3), {"p": 15})
    assert held(table) == list(range(1, 16))


def test_two_at_once_are_no_harm(local: Place) -> None:
    table = filled(local, 8)
    threads = [threading.Thread(target=compact, args=(filled(local, 0),), kwargs={"many": 2}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(table) == list(range(1, 25))


def test_what_goes_on_conflicting_is_told(local: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    table, tried = filled(local, 4), []

    def conflict(*_: object) -> int:
        tried.append(1)
        raise OSError("Retryable commit conflict for version 9")

    monkeypatch.setattr(compaction, "_compact", conflict)
    with pytest.raises(StoreError, match="others changed the same fragments at each of 5 attempts"):
        compact(table, many=2)
    assert len(tried) == 5


def test_deleted_rows_leave_the_files(local: Place) -> None:
    table = filled(local, 3, each=40)
    compact(table, many=2)
    size = sum(one.size for one in fragments_of(table.dataset))
    table.dataset.delete("sequence <= 100")
    table.refresh()
    assert compact(table) == 0, "as many fragments as before"
    assert sum(one.size for one in fragments_of(table.dataset)) < size
    assert sum(one.deleted for one in fragments_of(table.dataset)) == 0
    assert held(table) == list(range(101, 121))


def test_it_ends_between_two_pieces(local: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = filled(local, 8, each=30)
    monkeypatch.setattr(compaction, "piece_rows", lambda _: 60)
    asked = iter([False, True])
    assert compact(table, many=2, stop=lambda: next(asked)) == 1
    assert len(table.dataset.get_fragments()) == 8
    assert held(table) == list(range(1, 241))
