from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader.adapters import rows_of, to_slime

Make = Callable[..., Any]


def test_a_sample_per_row(made: Make) -> None:
    long, short, other = to_slime(made(), mean="token-mean")
    assert long == {
        "group_index": 0,
        "index": 0,
        "rollout_id": 0,
        "tokens": [1, 2, 11, 12, 3, 13, 4, 5, 14, 15, 16],
        "response_length": 9,
        "loss_mask": [1, 1, 0, 1, 0, 0, 1, 1, 1],
        "rollout_log_probs": pytest.approx([-0.5, -0.6, 0, -0.7, 0, 0, -0.1, -0.2, -0.3]),
        "reward": pytest.approx(0.5),
        "remove_sample": False,
        "metadata": {"trajectory_id": "long", "step_ids": ["s0", "s1", "s2"]},
        "status": "completed",
        "weight_versions": [],
    }
    assert [one["group_index"] for one in (long, short, other)] == [0, 0, 1]
    assert [one["reward"] for one in (short, other)] == pytest.approx([-0.5, 2.0])


def test_rows_of_one_trajectory_are_one_rollout(made: Make) -> None:
    samples = to_slime(made(merge_by="none"))
    assert [one["rollout_id"] for one in samples] == [0, 0, 0, 1, 2]
    assert [one["index"] for one in samples] == [0, 1, 2, 3, 4]


def test_versions_and_status_come_from_the_details(made: Make) -> None:
    status = ["ok", "ok", "truncated", "error", "aborted"]
    versions = pa.array([3, 3, 4, None, 5], pa.int64())
    details = pa.table({"step_id": [f"s{row}" for row in range(5)], "status": status, "policy_version": versions})
    samples = to_slime(rows_of(made(), details))
    assert [one["status"] for one in samples] == ["truncated", "failed", "aborted"]
    assert [one["weight_versions"] for one in samples] == [["3", "3", "4"], [], ["5"]]


def test_steps_that_differ_need_a_row_each(made: Make) -> None:
    steps = [("t", "g", [1], [2], 1.0), ("t", "g", [1, 2, 3], [4], -1.0)]
    with pytest.raises(InvalidRecord, match="merge='none'"):
        to_slime(made(steps))
    assert [one["reward"] for one in to_slime(made(steps, "none"))] == pytest.approx([1.0, -1.0])
