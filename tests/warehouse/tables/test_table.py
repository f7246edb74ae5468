"""Opening and making tables, and what their errors become."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from tests.stores import FaultyStore

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.schema import COMMITS, SCHEMA_VERSION, STEPS, STORAGE_VERSION, TABLES, TableSpec
from stepwell.warehouse._tables.table import LEDGER_KEY, first_line, guarded, ledger_row, opened, uri_of


def test_a_new_table_has_its_ledger_row_and_what_cannot_be_had_later(anywhere: Any) -> None:
    root = f"{anywhere.uri}/new"
    for spec in TABLES:
        table = opened(spec, root, anywhere.options, create=True)
        [row] = table.to_table().to_pylist()
        assert {name: value for name, value in row.items() if value is not None} == {
            spec.key: LEDGER_KEY,
            "ledger": '{"marks":{},"commit":0}',
        }
        assert table.schema.names == spec.schema.names
        assert table.data_storage_version == STORAGE_VERSION
        assert table.has_stable_row_ids
        assert opened(spec, root, anywhere.options, create=False).version == table.version


def test_of_many_at_once_one_makes_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: opened(STEPS, str(tmp_path), {}, create=True), range(4)))
    assert [table.count_rows() for table in made] == [1] * 4


def test_a_missing_table_is_made_only_when_asked(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no table"):
        opened(COMMITS, str(tmp_path), {}, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "what"), [(SCHEMA_VERSION + 1, "upgrade Stepwell"), (SCHEMA_VERSION - 1, "stepwell migrate")]
)
def test_another_schema_is_refused(tmp_path: Path, version: int, what: str) -> None:
    schema = COMMITS.schema.with_metadata({"stepwell:schema": str(version)})
    rows = ledger_row(TableSpec("commits", "commit_id", schema), {}, 0)
    lance.write_dataset(rows, tmp_path / "commits.lance")
    with pytest.raises(StoreError, match=f"has schema {version}.*{what}"):
        opened(COMMITS, str(tmp_path), {}, create=True)


def test_columns_that_came_later(tmp_path: Path) -> None:
    """Added by whoever may write; who only reads leaves the table as it is; of two at once each finds them."""
    fields = [field for field in COMMITS.schema if field.name != "created_at"]
    older = TableSpec("commits", "commit_id", pa.schema(fields, metadata=COMMITS.schema.metadata))
    opened(older, str(tmp_path), {}, create=True)
    assert "created_at" not in opened(COMMITS, str(tmp_path), {}, create=False).schema.names
    with ThreadPoolExecutor(3) as pool:
        made = list(pool.map(lambda _: opened(COMMITS, str(tmp_path), {}, create=True), range(3)))
    assert all("created_at" in table.schema.names for table in made)
    assert opened(COMMITS, str(tmp_path), {}, create=True).version == max(table.version for table in made), "once"


def test_what_is_no_table_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "commits.lance").write_bytes(b"not a folder")
    with pytest.raises(StoreError, match=r"commits\.lance"):
        opened(COMMITS, str(tmp_path), {}, create=True)


def test_a_store_that_refuses_is_a_store_error(faulty: FaultyStore) -> None:
    place = faulty.place(client_max_retries="1", client_retry_timeout="3")
    opened(COMMITS, place.uri, place.options, create=True)
    faulty.faults.add("status", status=403, code="AccessDenied")
    with pytest.raises(StoreError, match=r"commits\.lance"):
        opened(COMMITS, place.uri, place.options, create=True)


@pytest.mark.parametrize("error", [OSError("full"), RuntimeError("full"), ValueError("full")])
def test_errors_of_lance_are_store_errors(error: Exception) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(StoreError, match="the store failed on here: full") as caught:
        guarded("here", fail)
    assert not isinstance(caught.value, CommitConflict)


def test_a_conflict_is_told_apart() -> None:
    def fail() -> None:
        raise CommitConflictError("conflict")

    with pytest.raises(CommitConflict, match="committed to here first"):
        guarded("here", fail)


def test_a_bug_is_a_bug() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        guarded("here", fail)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("not found, /home/x/rust/lance/src/io.rs:12:3", "not found"),
        ("first\nsecond", "first"),
        ("x" * 999, "x" * 300),
        ("", "OSError"),
    ],
)
def test_the_message_without_places_in_lances_sources(said: str, kept: str) -> None:
    assert first_line(OSError(said)) == kept


def test_where_a_table_lies() -> None:
    assert uri_of(COMMITS, "s3://b/x/") == uri_of(COMMITS, "s3://b/x") == "s3://b/x/commits.lance"


def test_tables_of_a_warehouse_keep_a_bounded_part_of_what_they_read(tmp_path: Path) -> None:
    from stepwell.warehouse import Warehouse

    def session(warehouse: Warehouse, name: str) -> Any:
        return warehouse.tables[name].dataset.session()

    first, second = Warehouse.open(tmp_path), Warehouse.open(tmp_path)
    assert session(first, "steps").is_same_as(session(first, "events")), "all of it together"
    assert not session(first, "steps").is_same_as(session(second, "steps"))
    table = first.tables["events"]
    table.commit(table.spec.schema.empty_table(), {"p": 1})
    table.refresh()
    assert session(first, "steps").is_same_as(table.dataset.session()), "also after a commit"
