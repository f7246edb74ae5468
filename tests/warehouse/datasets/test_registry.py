"""Names, references, and the registry's rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse._datasets.registry import Dataset, Registry, checked_name, reference
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import DATASETS

ENTRY = Dataset("d", 0, 3, "true", None, 1, "f0", False, datetime(2026, 1, 1, tzinfo=UTC), "id0")


@pytest.fixture
def registry(local: Any) -> Registry:
    return Registry(LedgerTable(DATASETS, local.uri, local.options))


def nothing(_: Dataset) -> None:
    """Nothing has to be done before an entry is written."""


@pytest.mark.parametrize("name", ["d", "a b", "数学", "2026-01-01", "x" * 200, "a/b.c"])
def test_names(name: str) -> None:
    assert checked_name(name) == name
    assert reference(name) == (name, None)
    assert reference(f"{name}@12") == (name, 12)


@pytest.mark.parametrize("name", ["", "a@1", "x" * 201, " a", "a\n", "a\tb", "a\x00", "\ud800", "a\u202eb"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(InvalidRecord, match="name: 1 to 200 printable characters, without '@'"):
        checked_name(name)


@pytest.mark.parametrize("text", ["@1", "d@", "d@x", "d@-1", "d@1.0", "d@٣", "d@1@2", "d@" + "1" * 20])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(InvalidRecord):
        reference(text)


def test_an_entry_comes_back_as_it_was(registry: Registry) -> None:
    made = registry.add(ENTRY, {"models": ["m"]}, nothing)
    assert made == replace(ENTRY, version=1, created_at=made.created_at)
    assert made.created_at.tzinfo is not None
    assert made.label == "d@1"
    assert registry.list() == [made]
    assert registry.lineage(made) == {"models": ["m"]}


def test_a_number_is_never_given_again(registry: Registry) -> None:
    first, second = (registry.add(replace(ENTRY, dataset_id=f"id{n}"), {}, nothing) for n in (1, 2))
    registry.remove(second)
    assert registry.list() == [first]
    with pytest.raises(StoreError, match="no dataset d@2"):
        registry.get("d", 2)
    assert registry.get("d") == first
    third = registry.add(replace(ENTRY, dataset_id="id3"), {}, nothing)
    assert third.version == 3
    registry.remove(first)
    registry.remove(third)
    assert registry.list() == []
    assert registry.add(replace(ENTRY, name="e", dataset_id="id4"), {}, nothing).version == 1


def test_what_is_done_before_is_done_for_the_number_that_is_given(registry: Registry, local: Any) -> None:
    asked: list[int] = []

    def before(entry: Dataset) -> None:
        asked.append(entry.version)
        if len(asked) == 1:
            Registry(LedgerTable(DATASETS, local.uri, local.options)).add(
                replace(ENTRY, dataset_id="other"), {}, nothing
            )

    assert registry.add(ENTRY, {}, before).version == 2
    assert asked == [1, 2]
