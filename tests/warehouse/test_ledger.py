"""A commit lands once, whatever was stale, repeated, compacted or lost in between."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._ledger import LEDGER_KEY, LedgerTable
from stepwell.warehouse._schema import COMMITS, SCHEMA_VERSION, TableSpec


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"commit_id": str(n), "commit": n} for n in numbers], schema=COMMITS.schema)


def open_table(place: Any) -> LedgerTable:
    return LedgerTable(COMMITS, place.uri, place.options)


def held(table: LedgerTable) -> list[int]:
    """The data rows, and a check that there is exactly one ledger row."""
    table.refresh()
    everything = table.dataset.to_table(columns=["commit_id", "commit"]).to_pylist()
    assert sum(row["commit_id"] == LEDGER_KEY for row in everything) == 1
    return sorted(row["commit"] for row in everything if row["commit_id"] != LEDGER_KEY)


def test_a_commit_adds_rows_and_marks(anywhere: Any) -> None:
    table = open_table(anywhere)
    table.commit(rows(1, 2), {"p": 2})
    table.commit(rows(3), {"p": 3, "q": 1})
    assert held(table) == [1, 2, 3]
    assert open_table(anywhere).marks() == {"p": 3, "q": 1}


def test_a_stale_commit_conflicts_and_writes_nothing(anywhere: Any) -> None:
    first, second = open_table(anywhere), open_table(anywhere)
    first.commit(rows(1), {"p": 1})
    with pytest.raises(CommitConflict, match=r"commits\.lance"):
        second.commit(rows(1), {"p": 1})
    assert held(first) == [1]
    second.refresh()
    second.commit(rows(2), {"p": 2})
    assert held(first) == [1, 2]


def test_a_repeated_commit_conflicts(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a paused committer does that resumes with exactly what it had prepared."""
    table, landed = open_table(local), []
    commit = lance.LanceDataset.commit

    def recorded(*args: Any, **kwargs: Any) -> Any:
        landed.append((args, kwargs))
        return commit(*args, **kwargs)

    monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(recorded))
    table.commit(rows(1), {"p": 1})
    [(args, kwargs)] = landed
    with pytest.raises(OSError, match="conflict"):
        commit(*args, **kwargs)
    assert held(table) == [1]


def test_compaction_in_between_conflicts_and_keeps_the_ledger(anywhere: Any) -> None:
    table, other = open_table(anywhere), open_table(anywhere)
    for number in range(1, 6):
        table.commit(rows(number), {"p": number})
    other.refresh()
    table.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
    with pytest.raises(CommitConflict):
        other.commit(rows(6), {"p": 6})
    other.refresh()
    assert len(other.dataset.get_fragments()) == 1, "the ledger row now lies among data rows"
    for number in range(6, 9):
        other.commit(rows(number), {"p": number})
    assert held(table) == list(range(1, 9))
    assert table.marks() == {"p": 8}


def test_marks_never_go_back(local: Any) -> None:
    table = open_table(local)
    table.commit(rows(1), {"p": 100, "q": 1})
    table.commit(rows(2), {"p": 60, "r": 5})
    assert table.marks() == {"p": 100, "q": 1, "r": 5}


def test_add_is_asked_again_for_the_newest_state(local: Any) -> None:
    table, other = open_table(local), open_table(local)
    asked = []

    def next_number() -> pa.Table:
        asked.append(max(held(table), default=0) + 1)
        if len(asked) == 1:
            other.refresh()
            other.commit(rows(1), {"p": 9})
        return rows(asked[-1])

    table.add(next_number)
    assert asked == [1, 2]
    assert held(table) == [1, 2]
    assert table.marks() == {"p": 9}, "what comes from no spool leaves the marks alone"


def test_add_gives_up_in_the_end(local: Any) -> None:
    table, other = open_table(local), open_table(local)

    def always_late() -> pa.Table:
        other.refresh()
        other.commit(rows(), {})
        return rows(1)

    with pytest.raises(StoreError, match="others committed first"):
        table.add(always_late)
    assert held(table) == []


@pytest.mark.parametrize("attempt", ["commit", "marks"])
def test_a_lost_ledger_is_named(local: Any, attempt: str) -> None:
    table = open_table(local)
    table.dataset.delete(f"commit_id = '{LEDGER_KEY}'")
    table.refresh()
    with pytest.raises(StoreError, match="lost its ledger row"):
        table.commit(rows(1), {"p": 1}) if attempt == "commit" else table.marks()


def test_a_newer_schema_is_refused(tmp_path: Any) -> None:
    newer = COMMITS.schema.with_metadata({"stepwell:schema": str(SCHEMA_VERSION + 1)})
    lance.write_dataset(
        pa.Table.from_pylist([{"commit_id": LEDGER_KEY, "ledger": "{}"}], schema=newer), tmp_path / "commits.lance"
    )
    with pytest.raises(StoreError, match=f"has schema {SCHEMA_VERSION + 1}.*upgrade Stepwell"):
        LedgerTable(COMMITS, str(tmp_path))


def test_a_missing_table_is_made_only_when_asked(tmp_path: Any) -> None:
    with pytest.raises(StoreError, match="there is no table"):
        LedgerTable(COMMITS, str(tmp_path), create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_table_is_a_store_error(tmp_path: Any) -> None:
    (tmp_path / "commits.lance").write_bytes(b"not a folder")
    with pytest.raises(StoreError, match=r"commits\.lance"):
        LedgerTable(COMMITS, str(tmp_path))


def test_a_failing_store_is_no_conflict(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word in a path or a message does not make it one: a conflict is retried at once, a failure is not."""
    table = open_table(local)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("conflict-free folder: disk full, /rust/lance/src/io.rs:12:3")

    monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(fail))
    with pytest.raises(StoreError, match=r"disk full$") as caught:
        table.commit(rows(1), {"p": 1})
    assert not isinstance(caught.value, CommitConflict)


def test_columns_that_came_later_are_added_to_an_older_table(local: Any) -> None:
    """By whoever may write; who only reads leaves the table as it is."""
    older = pa.schema(
        [field for field in COMMITS.schema if field.name != "created_at"], metadata=COMMITS.schema.metadata
    )
    root = f"{local.uri}/older"
    LedgerTable(TableSpec("commits", "commit_id", older), root).commit(
        pa.Table.from_pylist([{"commit_id": "1", "commit": 1}], schema=older), {"p": 1}
    )
    assert "created_at" not in LedgerTable(COMMITS, root, create=False).dataset.schema.names
    table = LedgerTable(COMMITS, root)
    table.commit(rows(2), {"p": 2})
    assert held(table) == [1, 2]
    assert table.marks() == {"p": 2}
    assert table.dataset.to_table(filter="commit_id = '1'")["created_at"].to_pylist() == [None]
    assert LedgerTable(COMMITS, root).dataset.version == table.dataset.version, "once"
