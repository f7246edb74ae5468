"""Commits, and which rows were part of which."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse import Warehouse
from stepwell.warehouse._tables.schema import COMMITS
from stepwell.warehouse._tables.versions import History, number_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def history(*commits: dict[str, int], order: int = 1) -> History:
    """Commit 1, 2, …, each with the marks that it raised; an hour apart."""
    rows, marks = [], dict[str, int]()
    for number, raised in enumerate(commits, 1):
        for producer, mark in raised.items():
            row = {"commit_id": f"{number}.{producer}", "commit": number, "producer": producer, "sequence": mark}
            made = START + timedelta(hours=number)
            rows.append({**row, "after": marks.get(producer, 0), "created_at": made})
        marks |= raised
    return History(pa.Table.from_pylist(rows[::order], schema=COMMITS.schema))


THREE = ({"a": 3}, {"b": 2}, {"a": 4, "b": 9})


@pytest.mark.parametrize("order", [1, -1])
def test_marks_at_every_version(order: int) -> None:
    known = history(*THREE, order=order)
    assert known.number == 3
    assert [known.marks(at) for at in range(4)] == [{}, {"a": 3}, {"a": 3, "b": 2}, {"a": 4, "b": 9}]
    assert known.marks() == known.marks(3)
    assert known.upto(2).to_pylist() == [
        {"commit": 1, "producer": "a", "after": 0, "sequence": 3},
        {"commit": 2, "producer": "b", "after": 0, "sequence": 2},
    ]


def test_marks_are_nobody_elses() -> None:
    known = history(*THREE)
    known.marks(2)["a"] = 99
    assert known.marks(2) == {"a": 3, "b": 2}


def test_it_is_read_once_for_a_version(warehouse: Warehouse) -> None:
    table = warehouse.tables["commits"]
    first = History.read(table.dataset)
    assert History.read(table.dataset) is first and first.number == 0
    row = {"commit_id": "1.a", "commit": 1, "producer": "a", "after": 0, "sequence": 5}
    table.commit(pa.Table.from_pylist([row], schema=COMMITS.schema), {"a": 5}, 1)
    second = History.read(table.dataset)
    assert second.marks() == {"a": 5}
    dataset = table.dataset
    dataset.delete("commit = 1")  # the same object is of another version then
    assert History.read(dataset).number == 0


def test_the_commit_of_a_row() -> None:
    producers = pa.chunked_array([["b", "a", None], [], ["c", "a", "b", "b"]], pa.string())
    sequences = pa.chunked_array([pa.array(part, pa.int64()) for part in ([2, 3, None], [4, 5], [3, 10])])
    assert history(*THREE).commit_of(producers, sequences).tolist() == [2, 1, 0, 0, 0, 3, 0]
    assert history(*THREE).commit_of(pa.array(["a", "a"]), pa.array([1, 4])).tolist() == [1, 3]


def test_nothing_was_committed_yet() -> None:
    nothing = history()
    assert (nothing.number, nothing.marks(), nothing.marks(0)) == (0, {}, {})
    assert nothing.commit_of(pa.array(["a"]), pa.array([1])).tolist() == [0]
    assert nothing.number_at(datetime.max.replace(tzinfo=UTC)) == 0
    assert number_of(None, nothing, no_dataset) == 0


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1), max_size=6), st.data())
def test_a_row_is_visible_from_its_commit_on(steps: list[dict[str, int]], data: st.DataObject) -> None:
    marks, commits = dict[str, int](), list[dict[str, int]]()
    for raised in steps:
        commits.append({producer: marks.get(producer, 0) + count for producer, count in raised.items()})
        marks |= commits[-1]
    known = history(*commits)
    rows = data.draw(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 40))))
    producers = pa.array([producer for producer, _ in rows], pa.string())
    found = known.commit_of(producers, pa.array([number for _, number in rows], pa.int64()))
    for (producer, number), commit in zip(rows, found.tolist(), strict=True):
        seen = [at for at in range(known.number + 1) if number <= known.marks(at).get(producer, 0)]
        assert commit == min(seen, default=0)


def no_dataset(name: str, version: int) -> int:
    raise StoreError(f"no {name}@{version}")


@pytest.mark.parametrize(
    ("at", "number"),
    [
        (None, 3),
        (0, 0),
        (2, 2),
        ("2", 2),
        (" 3 ", 3),
        ("math@7", 1),
        ("2026-01@1", 1),
        (START, 0),
        (START + timedelta(hours=2), 2),
        (START.replace(tzinfo=None) + timedelta(hours=2), 2),
        ("2026-03-01T13:00:00Z", 1),
        ("2026-03-01T13:00:00", 1),
        ("2026-03-01 14:59:59.999999+01:00", 1),
        ("2026-03-01T15:00:00+01:00", 2),
        (datetime(2026, 3, 1, 15, tzinfo=timezone(timedelta(hours=1))), 2),
        ("2026-03-02", 3),
        ("2026-02-28", 0),
    ],
)
def test_what_a_version_may_be_called(at: Any, number: int) -> None:
    assert number_of(at, history(*THREE), lambda name, version: 1) == number


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (4, "there is no commit 4: the newest is 3"),
        ("4", "there is no commit 4"),
        (-1, "there is no commit -1"),
        ("", "is no version"),
        ("yesterday", "'yesterday' is no version"),
        ("math", "is no version"),
        ("math@", "is no version"),
        ("@3", "is no version"),
        ("math@x", "is no version"),
        (True, "is no version"),
        ("1" * 30, "there is no commit 1111"),
    ],
)
def test_what_is_no_version(at: Any, why: str) -> None:
    with pytest.raises(InvalidRecord, match=why) as caught:
        number_of(at, history(*THREE), no_dataset)
    assert caught.value.field == "at"


def test_a_version_of_a_dataset_that_is_not_there() -> None:
    with pytest.raises(StoreError, match="no math@2"):
        number_of("math@2", history(*THREE), no_dataset)
    with pytest.raises(InvalidRecord, match="there is no commit 9"):
        number_of("math@2", history(*THREE), lambda name, version: 9)


def test_clocks_order_nothing() -> None:
    """A later commit with an earlier time: by that time it was there, and what it stands on with it."""
    rows: list[dict[str, Any]] = [
        {
            "commit_id": str(n),
            "commit": n,
            "producer": "a",
            "after": n - 1,
            "sequence": n,
            "created_at": START - n * timedelta(hours=1),
        }
        for n in (1, 2)
    ]
    rows.append({**rows[0], "commit_id": "x", "commit": 3, "sequence": 3, "created_at": None})
    known = History(pa.Table.from_pylist(rows, schema=COMMITS.schema))
    assert known.number_at(START - timedelta(hours=2)) == 2
    assert known.number_at(START) == 2
    assert known.number == 3
