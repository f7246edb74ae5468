"""Finding rows by id, however many and however named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.warehouse import Warehouse
from stepwell.warehouse._read import by_id, existing, holds_data, matching, of_trajectories, whole_steps

STRANGE = ["it's", '"', "\\", "%", "_", "a b", "ü", "日本", "x'); DROP TABLE steps; --", "{}", "NULL", "true"]


@pytest.fixture
def dataset(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Any:
    for name in STRANGE:
        feed.step(step_id=name, trajectory_id=f"t-{name}", prompt_ids=list(range(20)), response_ids=[1])
        feed.step(
            step_id=f"{name}+",
            trajectory_id=f"t-{name}",
            prompt_ids=[*range(20), 1, 2],
            response_ids=[3],
            messages=[],
        )
    ingest()
    return warehouse.tables["steps"].dataset


@pytest.mark.parametrize("padding", [0, 300], ids=["in the filter", "while scanning"])
def test_matching(dataset: Any, padding: int) -> None:
    others = [f"none{n}" for n in range(padding)]
    for name in STRANGE:
        found = matching(dataset, "step_id", [name, *others], ["trajectory_id", "turn"])
        assert found.to_pylist() == [{"trajectory_id": f"t-{name}", "turn": 0}]
    assert existing(dataset, "step_id", [*STRANGE, "gone", *others]) == set(STRANGE)
    assert matching(dataset, "step_id", others, ["turn"]).num_rows == 0


def test_by_id_restores_whole_steps(dataset: Any) -> None:
    asked = [f"{name}+" for name in reversed(STRANGE)]
    found = by_id(dataset, asked, ["step_id", "prompt_ids"])
    assert found.column_names == ["step_id", "prompt_ids"]
    assert found["step_id"].to_pylist() == asked
    assert found["prompt_ids"].to_pylist() == [[*range(20), 1, 2]] * len(asked)


def test_of_trajectories(dataset: Any) -> None:
    found = of_trajectories(dataset, ["t-%", "t-it's"])
    assert sorted(found["step_id"].to_pylist()) == sorted(["%", "%+", "it's", "it's+"])


def test_every_step(dataset: Any) -> None:
    found = whole_steps(dataset)
    assert found.column_names == ["step_id", "prompt_ids", "messages", "tools"]
    assert sorted(found["step_id"].to_pylist()) == sorted([*STRANGE, *(f"{name}+" for name in STRANGE)])


def test_an_empty_table(warehouse: Warehouse) -> None:
    empty = warehouse.tables["steps"].dataset
    assert not holds_data(empty)
    assert existing(empty, "step_id", ["__ledger__"]) == set()
    assert by_id(empty, ["__ledger__"]).num_rows == 0
