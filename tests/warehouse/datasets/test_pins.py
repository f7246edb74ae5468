"""Tags that keep files."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.warehouse import Dataset, Warehouse
from stepwell.warehouse._datasets.pins import PINNED, pin, tag_of, unpin

ENTRY = Dataset("d", 1, 3, "true", None, 1, "f0", True, datetime(2026, 1, 1, tzinfo=UTC), "id0")
NAMES = ["d", "a b", "a_b", "a/b", "数学", "..", "x.lock", "d-v1", "x" * 200]


def tags(warehouse: Warehouse) -> list[set[str]]:
    warehouse.refresh()
    return [set(warehouse.tables[name].dataset.tags.list()) for name in PINNED]


def test_tag_names_are_allowed_and_each_ones_own() -> None:
    made = [tag_of(replace(ENTRY, name=name, version=version)) for name in NAMES for version in (1, 2)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"stepwell-[A-Za-z0-9_-]+-v[12]", name) for name in made)
    assert tag_of(ENTRY) == "stepwell-d-v1"


@pytest.mark.parametrize("name", NAMES)
def test_pinning_and_back(warehouse: Warehouse, name: str) -> None:
    entry = replace(ENTRY, name=name)
    pin(warehouse.tables, entry)
    pin(warehouse.tables, entry)
    pin(warehouse.tables, replace(entry, version=2))
    assert tags(warehouse) == [{tag_of(entry), tag_of(replace(entry, version=2))}] * 3
    unpin(warehouse.tables, entry)
    unpin(warehouse.tables, entry)
    assert tags(warehouse) == [{tag_of(replace(entry, version=2))}] * 3


def test_a_tag_is_of_the_newest_version(warehouse: Warehouse, feed: Any, ingest: Any) -> None:
    pin(warehouse.tables, ENTRY)
    feed.step()
    ingest()
    pin(warehouse.tables, ENTRY)
    steps = warehouse.tables["steps"].dataset
    assert steps.tags.list()[tag_of(ENTRY)]["version"] == steps.version


def test_a_store_that_fails_is_named(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    from lance.dataset import Tags

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Tags, "create", fail)
    with pytest.raises(StoreError, match=r"cannot tag .*payloads\.lance as stepwell-d-v1: disk full"):
        pin(warehouse.tables, ENTRY)
