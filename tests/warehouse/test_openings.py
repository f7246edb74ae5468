"""Facts from the openings of trajectories, for the steps that lack them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.warehouse import Warehouse
from stepwell.warehouse._openings import openings, with_openings
from stepwell.warehouse._trajectories import Facts


@pytest.fixture
def events(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Any:
    feed.trajectory("t", group_id="first")
    feed.trajectory("t", "completed")
    ingest()
    feed.trajectory("t", group_id="second", policy_version=-(2**63))
    feed.trajectory("u", prompt_id="p", split="eval")
    feed.feedback(trajectory_id="v", reward=1.0)
    ingest()
    return warehouse.tables["events"].dataset


def test_the_last_opening_counts(events: Any) -> None:
    assert openings(events, ["t", "u", "v", "w", "t"]) == {
        "t": Facts(group_id="second", split="train", policy_version=-(2**63)),
        "u": Facts(prompt_id="p", split="eval"),
    }
    assert openings(events, []) == {}


def test_nothing_was_ever_opened(warehouse: Warehouse) -> None:
    assert openings(warehouse.tables["events"].dataset, ["t"]) == {}


def test_only_what_is_missing_is_filled(events: Any) -> None:
    steps = pa.table(
        {
            "trajectory_id": ["t", "u", "u", "w"],
            "group_id": pa.array([None, "own", None, None], pa.string()),
            "split": pa.array([None, "train", None, None], pa.string()),
            "policy_version": pa.array([None, 1, None, None], pa.int64()),
        }
    )
    filled = with_openings(steps, events)
    assert filled.schema.equals(steps.schema)
    assert filled["group_id"].to_pylist() == ["second", "own", None, None]
    assert filled["split"].to_pylist() == ["train", "train", "eval", "train"]
    assert filled["policy_version"].to_pylist() == [-(2**63), 1, None, None]
    other = steps.select(["trajectory_id"])
    assert with_openings(other, events) is other
