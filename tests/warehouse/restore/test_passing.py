"""What stays in memory of the trajectories that a query comes across."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest

from stepwell.warehouse import Warehouse
from stepwell.warehouse._restore import passing
from stepwell.warehouse._restore.passing import Passing
from stepwell.warehouse._tables.schema import STEPS

MANY, TURNS = 60, 4


@pytest.fixture
def steps(warehouse: Warehouse) -> lance.LanceDataset:
    """Trajectories of some turns, of which each is written at another time."""
    for turn in range(TURNS):
        rows = [
            {"step_id": f"t{number}.{turn}", "trajectory_id": f"t{number}", "prompt_suffix": [turn] * 50}
            for number in range(MANY)
        ]
        table = warehouse.tables["steps"]
        table.add(lambda: pa.Table.from_pylist(rows, schema=STEPS.schema))  # noqa: B023
    warehouse.refresh()
    return warehouse.tables["steps"].dataset


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The trajectories of each look at the table."""
    calls = list[list[str]]()

    def noted(self: Passing, ids: list[str]) -> Any:
        calls.append(ids)
        return real(self, ids)

    real = Passing._read
    monkeypatch.setattr(Passing, "_read", noted)
    yield calls


def ask(known: Passing, *numbers: int) -> list[str]:
    tables = known.stored(pa.array([f"t{number}" for number in numbers]))
    return sorted(id_ for table in tables for id_ in table["step_id"].to_pylist())


def expected(*numbers: int) -> list[str]:
    return sorted(f"t{number}.{turn}" for number in numbers for turn in range(TURNS))


@pytest.mark.parametrize("few", [0, 10, 4096])
@pytest.mark.parametrize("kept", [0, 20_000, 1 << 30])
def test_all_rows_of_those_that_are_asked_for(
    steps: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch, few: int, kept: int
) -> None:
    monkeypatch.setattr(passing, "_FEW", few)
    monkeypatch.setattr(passing, "_KEPT", kept)
    monkeypatch.setattr(passing, "_BEGUN_WITH", 4)
    known = Passing(steps, ["step_id", "prompt_ids"])
    for numbers in ((1, 2, 3), (2,), range(10, 50), (1, 30, 59), range(MANY), (0,)):
        assert ask(known, *numbers) == expected(*numbers)
        assert len(known._blocks) == 1 or known._size <= kept
        assert known._size == sum(rows.nbytes for _, rows in known._blocks.values())


def test_what_was_asked_for_lately_stays(
    steps: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch, read: list[list[str]]
) -> None:
    known = Passing(steps, ["step_id", "prompt_ids"])
    ask(known, 1)
    monkeypatch.setattr(passing, "_KEPT", 2 * known._size + known._size // 2)
    for number in (2, 1, 3, 1, 2):
        ask(known, number)
    assert read == [["t1"], ["t2"], ["t3"], ["t2"]]


def test_so_much_is_read_together_as_it_weighs(
    steps: lance.LanceDataset, monkeypatch: pytest.MonkeyPatch, read: list[list[str]]
) -> None:
    monkeypatch.setattr(passing, "_BEGUN_WITH", 4)
    known = Passing(steps, ["step_id", "prompt_ids"])
    ask(known, *range(28))
    assert [len(ids) for ids in read] == [4, 8, 16], "it is little"
    monkeypatch.setattr(passing, "_AT_ONCE", 1)
    ask(known, *range(28, 34))
    assert [len(ids) for ids in read[3:]] == [6], "one more guess"
    ask(known, *range(34, 37))
    assert [len(ids) for ids in read[4:]] == [1, 1, 1]
