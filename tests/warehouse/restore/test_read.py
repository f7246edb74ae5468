"""Finding rows by id, however many and however named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from stepwell.errors import StoreError
from stepwell.sdk.records import Step
from stepwell.warehouse import Warehouse
from stepwell.warehouse._restore import read as _read
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._restore.read import by_id, existing, holds_data, matching, of_trajectories

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


@pytest.mark.parametrize(
    ("padding", "scanned"),
    [(0, 64), (300, 0), (300, 64), (4100, 64)],
    ids=["in the filter", "in two filters", "in the column", "while scanning"],
)
def test_matching(dataset: Any, monkeypatch: pytest.MonkeyPatch, padding: int, scanned: int) -> None:
    monkeypatch.setattr(_read, "_SCANNED", scanned)
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


@pytest.mark.parametrize("deleted", [None, 0, 7, 13, 29])
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("listed", [200, 1], ids=["in the filter", "in the column"])
def test_rows_of_several_fragments_of_which_some_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int | None, indexed: bool, listed: int
) -> None:
    monkeypatch.setattr(_read, "_LISTED", listed)
    rows = pa.table({"id": [f"r{n}" for n in range(30)], "of": [f"t{n % 4}" for n in range(30)], "n": range(30)})
    made = lance.write_dataset(rows, str(tmp_path / "t.lance"), max_rows_per_file=8)
    if indexed:
        made.create_scalar_index("of", "BTREE")
    if deleted is not None:
        made.delete(f"n = {deleted}")
    for asked in (["t1"], ["t3", "t0"], ["t0", "t1", "t2", "t3"], ["none"]):
        found = matching(made, "of", asked, ["n", "id"])
        expected = [n for n in range(30) if f"t{n % 4}" in asked and n != deleted]
        assert found.column_names == ["n", "id"]
        in_order = found if deleted is None or listed > 1 else found.sort_by("n")  # one filter after the other
        assert in_order.to_pylist() == [{"n": n, "id": f"r{n}"} for n in expected]
    assert matching(made, "id", [], ["n"]).num_rows == 0


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
    assert of_trajectories(steps, ["t"], ["step_id", "messages"], payloads=payloads).num_rows == 2
    assert by_id(steps, ["b"], ["messages"]).num_rows == 1
    with pytest.raises(StoreError, match=r"step a refers to payload [0-9a-f]{32}, which is not there"):
        by_id(steps, ["b", "a"], ["messages"])
    broken: dict[str, str] = {}
    assert by_id(steps, ["a", "b"], ["step_id", "messages"], broken=broken)["step_id"].to_pylist() == ["b"]
    assert set(broken) == {"a"}
    assert by_id(steps, ["a"], ["step_id", "response"])["response"].to_pylist() != [None], "not asked for its messages"
