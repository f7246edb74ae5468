"""Announcements: what is said is what is read, and what cannot be read is in nobody's way."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import StoreError
from stepwell.warehouse._store.flush import FORMAT, Flush, Inbox, decoded, held
from stepwell.warehouse._store.objects import FolderObjects, objects_at
from stepwell.warehouse._tables.schema import SCHEMA_VERSION

FRAGMENT = '{"id": 0, "files": [], "physical_rows": 3}'


def flush(writer: str = "w", number: int = 1, **more: Any) -> Flush:
    fields: dict[str, Any] = {"ranges": {"p": (0, 3)}, "fragments": {"events": [FRAGMENT]}, "schema": SCHEMA_VERSION}
    return Flush(writer, number, **{**fields, **more})


def damaged(**more: Any) -> bytes:
    return orjson.dumps({**orjson.loads(flush().encoded()), **more})


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path)


@pytest.fixture
def inbox(objects: FolderObjects) -> Inbox:
    return Inbox(objects)


def test_what_is_announced_is_read(anywhere: Any) -> None:
    inbox = Inbox(objects_at(anywhere.uri, anywhere.options))
    said = flush(
        ranges={"p": (3, 9), "ü": (0, 1)},
        needs={"p": 3},
        submitted={"events": ["a", "é"]},
        checked={"events": 7},
        at=12.5,
    )
    inbox.announce(said)
    assert inbox.keys() == inbox.keys("w") == [said.key]
    assert inbox.read(inbox.keys()) == [said]
    inbox.remove(inbox.keys())
    assert inbox.keys() == []


def test_each_writers_in_order(inbox: Inbox) -> None:
    for number in (10, 9, 11, 100):
        inbox.announce(flush("b", number))
    inbox.announce(flush("a", 12))
    found = [(one.writer, one.number) for one in inbox.read(inbox.keys())]
    assert found == [("a", 12), ("b", 9), ("b", 10), ("b", 11), ("b", 100)]
    assert inbox.keys("a") == [flush("a", 12).key]
    assert inbox.keys("") == inbox.keys()


def test_the_same_again_changes_nothing(inbox: Inbox) -> None:
    inbox.announce(flush())
    inbox.announce(flush())
    with pytest.raises(StoreError, match=r"another flush _inbox/w/0+1"):
        inbox.announce(flush(ranges={"p": (0, 4)}))
    assert inbox.read(inbox.keys()) == [flush()]


def test_what_was_removed_meanwhile_is_left_out(inbox: Inbox) -> None:
    for number in (1, 2, 3):
        inbox.announce(flush(number=number))
    keys = inbox.keys()
    inbox.remove(keys[1:2])
    inbox.remove(keys[1:2])
    assert [one.number for one in inbox.read(keys)] == [1, 3]
    assert inbox.read([]) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"[]", "cannot be read"),
        (b"{}", "format"),
        (flush().encoded()[:-9], "cannot be read"),
        (damaged(format=FORMAT + 1), "upgrade Stepwell"),
        (damaged(schema=SCHEMA_VERSION + 1), "upgrade Stepwell"),
        (damaged(number=2), "it says that it is"),
        (damaged(writer="v"), "it says that it is"),
        (damaged(ranges={}), "ranges"),
        (damaged(ranges={"p": [3, 3]}), "ranges"),
        (damaged(ranges={"p": [-1, 3]}), "ranges"),
        (damaged(ranges={"p": [3]}), "cannot be read"),
        (damaged(fragments={"nothing": []}), "nothing"),
        (damaged(fragments={"events": ["?"]}), "cannot be read"),
        (damaged(fragments={"events": [{}]}), "cannot be read"),
        (damaged(more=1), "more"),
    ],
)
def test_what_cannot_be_read_stays_and_is_said_once(
    inbox: Inbox, objects: FolderObjects, caplog: pytest.LogCaptureFixture, data: bytes, why: str
) -> None:
    key = flush().key
    objects.put(key, data)
    inbox.announce(flush("x"))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert inbox.read(inbox.keys()) == [flush("x")]
    [record] = caplog.records
    assert key in record.getMessage()
    assert why in record.getMessage()
    assert inbox.keys() == [key, flush("x").key]


RANGES = st.dictionaries(
    st.text(max_size=5),
    st.tuples(st.integers(0, 50), st.integers(1, 50)).map(lambda two: (two[0], sum(two))),
    min_size=1,
)


@given(ranges=RANGES, ids=st.lists(st.text()), number=st.integers(0, 10**12 - 1))
def test_any_flush_comes_back(ranges: Any, ids: list[str], number: int) -> None:
    said = flush(number=number, ranges=ranges, submitted={"steps": ids})
    assert decoded(said.key, said.encoded()) == said


@given(ranges=RANGES, marks=st.dictionaries(st.text(max_size=2), st.integers(0, 120)))
def test_a_table_has_all_of_a_flush_or_nothing_or_some(ranges: Any, marks: dict[str, int]) -> None:
    marks |= {name: marks.get(name, 60) for name in list(ranges)[:1]}
    records = {(name, number) for name, (after, upto) in ranges.items() for number in range(after + 1, upto + 1)}
    there = {(name, number) for name, number in records if number <= marks.get(name, 0)}
    assert held(marks, ranges) is (True if there == records else None if there else False)
