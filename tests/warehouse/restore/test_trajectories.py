"""The rows of many trajectories: the same whichever way they are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.sdk.records import Step
from stepwell.warehouse import Warehouse
from stepwell.warehouse._restore import trajectories as _trajectories
from stepwell.warehouse._restore.read import stored_of
from stepwell.warehouse._restore.trajectories import Trajectories

COLUMNS = ["step_id", "prompt_ids"]


@pytest.fixture
def dataset(put: Callable[[list[Step]], None], warehouse: Warehouse) -> Any:
    """Of several fragments, with the steps of a trajectory in more than one, and some deleted."""
    for part in range(3):
        put(
            [
                Step(step_id=f"{name}.{part}", trajectory_id=f"t{name}", prompt_ids=[part] * 20, response_ids=[name])
                for name in range(10)
            ]
        )
    steps = warehouse.tables["steps"]
    steps.dataset.delete("step_id IN ('3.0', '4.1') OR trajectory_id = 't7'")
    steps.refresh()
    return steps.dataset


@pytest.mark.parametrize("look_up", [0, 200], ids=["by the index", "by their places"])
def test_rows_of_trajectories(dataset: Any, look_up: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trajectories, "_LOOK_UP", look_up)
    monkeypatch.setattr(_trajectories, "_AT_ONCE", 7)
    ids = ["t3", "t9", "nobody's", "t4", "t7"]
    found = Trajectories(dataset, pa.array(ids), COLUMNS)
    for numbers in ([0], [3, 1], [2], [4], [0, 1, 2, 3, 4]):
        rows = found.read(np.array(numbers, np.int32))
        expected = stored_of(dataset, [ids[number] for number in numbers], COLUMNS)
        assert rows.sort_by("step_id").to_pylist() == expected.sort_by("step_id").to_pylist()
        assert rows.schema.names == expected.schema.names
    assert found.read(np.array([0, 3], np.int32))["step_id"].to_pylist() == ["4.0", "3.1", "3.2", "4.2"]


def test_many_are_found_with_one_look(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index is asked again for each part; the column is read once."""

    def never(*_: Any) -> None:
        raise AssertionError("asked the index")

    monkeypatch.setattr(_trajectories, "stored_of", never)
    found = Trajectories(dataset, pa.array([f"t{name}" for name in range(10)]), COLUMNS)
    assert sum(found.read(np.array([number], np.int32)).num_rows for number in range(10)) == 25
