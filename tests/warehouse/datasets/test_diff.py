"""What two datasets differ in."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from stepwell.warehouse._datasets.diff import difference
from stepwell.warehouse._datasets.frozen import ROW_COLUMNS
from stepwell.warehouse._tables.schema import DATASET_ROWS

SCHEMA = pa.schema([DATASET_ROWS.schema.field(name) for name in ROW_COLUMNS])
PLAIN: dict[str, Any] = {"trajectory_id": "t", "labels": [], "trajectory_labels": [], "split": "train"}


def rows(*given: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{**PLAIN, **row} for row in given], schema=SCHEMA)


def test_added_removed_and_changed_in_order() -> None:
    before = rows({"step_id": "r2"}, {"step_id": "c"}, {"step_id": "same"}, {"step_id": "r1"})
    after = rows({"step_id": "z"}, {"step_id": "same"}, {"step_id": "c", "step_reward": 1.0}, {"step_id": "a"})
    found = difference(before, after)
    assert [(row["step_id"], row["change"], row["columns"]) for row in found.to_pylist()] == [
        ("z", "added", []),
        ("c", "changed", ["step_reward"]),
        ("a", "added", []),
        ("r2", "removed", []),
        ("r1", "removed", []),
    ]
    assert set(found["trajectory_id"].to_pylist()) == {"t"}


def test_values_before_and_after() -> None:
    before = rows({"step_id": "s", "trajectory_reward": 0.0, "labels": ["x"], "group_id": "g"})
    after = rows({"step_id": "s", "trajectory_reward": None, "labels": ["x", "y"], "group_id": None})
    [row] = difference(before, after).to_pylist()
    assert row["columns"] == ["group_id", "trajectory_reward", "labels"]
    assert (row["trajectory_reward_before"], row["trajectory_reward_after"]) == (0.0, None)
    assert (row["labels_before"], row["labels_after"]) == (["x"], ["x", "y"])


def test_the_same_and_nothing() -> None:
    some = rows({"step_id": "s", "step_reward": 0.5})
    assert difference(some, some).num_rows == 0
    assert difference(some.slice(1), some)["change"].to_pylist() == ["added"]
    assert difference(rows(), rows()).num_rows == 0
