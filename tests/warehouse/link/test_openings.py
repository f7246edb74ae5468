"""Facts from the openings of trajectories, for the steps that lack them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.warehouse import Warehouse
from stepwell.warehouse._link.openings import openings
from stepwell.warehouse._link.trajectories import Facts


@pytest.fixture
def stored(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Any:
    feed.trajectory("t", group_id="first")
    feed.trajectory("t", "completed")
    ingest()
    feed.trajectory("t", group_id="second", policy_version=-(2**63))
    feed.trajectory("u", prompt_id="p", split="eval")
    feed.feedback(trajectory_id="v", reward=1.0)
    ingest()
    warehouse.refresh()
    return warehouse.tables["events"].dataset, warehouse.tables["commits"].dataset


def test_the_last_opening_counts(stored: Any) -> None:
    events, commits = stored
    assert openings(events, ["t", "u", "v", "w", "t"], commits) == {
        "t": Facts(group_id="second", split="train", policy_version=-(2**63)),
        "u": Facts(prompt_id="p", split="eval"),
    }
    assert openings(events, [], commits) == {}


def test_nothing_was_ever_opened(warehouse: Warehouse) -> None:
    tables = warehouse.tables
    assert openings(tables["events"].dataset, ["t"], tables["commits"].dataset) == {}
