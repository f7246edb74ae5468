"""Rows by the range of their records, whatever the fragments are, with a look at no more of them than it takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import lance
import pyarrow as pa
import pytest

from stepwell.warehouse._tables import newer
from stepwell.warehouse._tables.newer import Newer

ROWS = {"a": range(1, 60), "b": range(1, 20), "late": range(3, 9)}
WANTED: list[tuple[dict[str, int], dict[str, int]]] = [
    ({}, {"a": 59, "b": 19, "late": 8}),
    ({"a": 55, "b": 17}, {"a": 59, "b": 19}),
    ({"a": 4}, {"a": 6, "late": 5}),
    ({"a": 59}, {"a": 59, "nobody": 9}),
]


@pytest.fixture
def dataset(tmp_path: Path) -> lance.LanceDataset:
    """Three fragments, each with rows of all three producers, and one row of none."""
    rows = [{"id": f"{name}{number}", "producer": name, "sequence": number} for name in ROWS for number in ROWS[name]]
    rows.append({"id": "ledger", "producer": None, "sequence": None})
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(pa.Table.from_pylist(rows[0::3]), uri)
    for part in (1, 2):
        lance.write_dataset(pa.Table.from_pylist(rows[part::3]), uri, mode="append")
    return lance.dataset(uri)


def expected(after: Mapping[str, int], upto: Mapping[str, int]) -> list[str]:
    return sorted(
        f"{name}{number}" for name in upto for number in ROWS.get(name, ()) if after.get(name, 0) < number <= upto[name]
    )


@pytest.mark.parametrize("large", [1, 10_000])
@pytest.mark.parametrize("few", [0, 5, 10_000])
def test_the_rows_in_the_range(
    dataset: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch, large: int, few: int
) -> None:
    monkeypatch.setattr(newer, "_LARGE", large)
    monkeypatch.setattr(newer, "_FEW", few)
    for start in range(len(WANTED)):
        known = Newer()
        for after, upto in WANTED[start:] + WANTED[:start]:
            found = known.rows(dataset, after, upto, ["id"])
            assert found.column_names == ["id"]
            assert sorted(found["id"].to_pylist()) == expected(after, upto)


def test_large_fragments_are_looked_at_when_they_are_asked_again(
    dataset: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newer, "_LARGE", 50)
    known, looked = Newer(), list[int]()

    def look(_: Newer, dataset: lance.LanceDataset, fragments: list[Any], files: Mapping[int, str]) -> None:
        looked.append(len(fragments))
        real(known, dataset, fragments, files)

    real = Newer._look
    with mock.patch.object(Newer, "_look", look):
        for _ in range(3):
            known.rows(dataset, {"a": 55}, {"a": 59}, ["id"])
        assert looked == [3, 0]
        lance.write_dataset(pa.table({"id": ["a60"], "producer": ["a"], "sequence": [60]}), dataset.uri, mode="append")
        grown = lance.dataset(dataset.uri)
        assert known.rows(grown, {"a": 58}, {"a": 60}, ["id"])["id"].to_pylist() == ["a59", "a60"]
        assert looked == [3, 0, 1], "what came since is small, and nothing else is looked at"
