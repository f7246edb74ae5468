"""Finding rows by id, however many and however named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.sdk.records import Step
from stepwell.warehouse import Warehouse
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._restore.read import by_id, existing, holds_data, matching, of_trajectories, whole_steps

STRANGE = ["it's", '"', "\\", "%", "_", "a b", "ü", "日本", "x'); DROP TABLE steps; --", "{}", "NULL", "true"]


@pytest.fixture
def dataset(put: Callable[[list[Step]], None], warehouse: Warehouse) -> Any:
    steps = []
    for name in STRANGE:
        steps.append(Step(step_id=name, trajectory_id=f"t-{name}", prompt_ids=list(range(20)), response_ids=[1]))
        longer = {"prompt_ids": [*range(20), 1, 2], "response_ids": [3], "messages": []}
        steps.append(Step.model_validate({"step_id": f"{name}+", "trajectory_id": f"t-{name}", **longer}))
    put(steps)
    return warehouse.tables["steps"].dataset


@pytest.mark.parametrize("padding", [0, 300, 4100], ids=["in the filter", "in two filters", "while scanning"])
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


def test_what_is_stored_apart(put: Callable[[list[Step]], None], warehouse: Warehouse) -> None:
    """Read with a lookup; without what it finds only the steps that need it are unreadable."""
    large, answer = {"role": "user", "content": "long " * 1000}, {"role": "assistant", "content": "a"}
    small = {"role": "user", "content": "q"}
    put(
        [
            Step(step_id="a", trajectory_id="t", messages=[large], response=answer),
            Step(step_id="b", trajectory_id="t", messages=[small], response=answer),
        ]
    )
    steps, payloads = warehouse.tables["steps"].dataset, Payloads(lambda: warehouse.tables["payloads"].dataset)
    whole = by_id(steps, ["b", "a"], ["messages"], payloads=payloads)
    assert [len(text) > 5000 for text in whole["messages"].to_pylist()] == [False, True]
    assert whole_steps(steps, payloads=payloads)["messages"].null_count == 0
    assert of_trajectories(steps, ["t"], ["step_id", "messages"], payloads=payloads).num_rows == 2
    assert by_id(steps, ["b"], ["messages"]).num_rows == 1
    with pytest.raises(StoreError, match=r"step a refers to payload [0-9a-f]{32}, which is not there"):
        by_id(steps, ["b", "a"], ["messages"])
    broken: dict[str, str] = {}
    assert by_id(steps, ["a", "b"], ["step_id", "messages"], broken=broken)["step_id"].to_pylist() == ["b"]
    assert set(broken) == {"a"}
    assert by_id(steps, ["a"], ["step_id", "response"])["response"].to_pylist() != [None], "not asked for its messages"
