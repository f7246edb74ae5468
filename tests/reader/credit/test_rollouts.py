"""What `Rollouts` refuses, and what it works out about trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from tests.reader.credit import oracle
from tests.reader.credit.forest import Trajectory, chain, rollouts, trajectories

from stepwell.errors import InvalidRecord
from stepwell.reader._credit import Rollouts


def _two(**changed: Any) -> Rollouts:
    """Trajectory 0 with three steps, trajectory 1 with one."""
    return rollouts([chain(1.0, 2.0, 3.0, final=1.0), chain(4.0, final=0.0)], **changed)


@settings(max_examples=100)
@given(trajectories())
def test_depth_and_height(given_: list[Trajectory]) -> None:
    found = rollouts(given_)

    def depth(one: Trajectory, step: int) -> int:
        parent = one.steps[step].parent
        return 0 if parent is None else 1 + depth(one, parent)

    places = [(one, step) for one in given_ for step in range(len(one.steps))]
    assert found.depth.tolist() == [depth(*place) for place in places]
    assert found.height.tolist() == [oracle.height(*place) for place in places]


def test_columns_have_their_types_and_optional_ones_a_meaning() -> None:
    found = _two(truncated=None)
    assert found.step.dtype == np.int64
    assert found.parent.dtype == np.int32
    assert found.was_cut.tolist() == [False, False]
    assert (len(found), found.trajectories) == (4, 2)
    assert found.name(1) == "trajectory 1"
    assert _two(names=["a", "b"]).name(1) == "trajectory b"


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"parent": [-1, 0, 1]}, "parent", "has 3 values where 4 are needed"),
        ({"complete": [True]}, "complete", "has 1 values where 2 are needed"),
        ({"truncated": [True]}, "truncated", "has 1 values where 2 are needed"),
        ({"names": ["a"]}, "names", "has 1 values where 2 are needed"),
        ({"trajectory": [0, 0, 0, 2]}, "trajectory", "row 3 has 2; must be at least 0 and below 2"),
        ({"trajectory": [0, 0, 0, -1]}, "trajectory", "row 3 has -1"),
        ({"group": [0, -2]}, "group", "row 1 has -2"),
        ({"parent": [-1, 0, 1, 4]}, "parent", "row 3 has 4"),
        ({"parent": [-1, 0, 1, -2]}, "parent", "row 3 has -2"),
        ({"response_length": [1, 1, 1, -1]}, "response_length", "row 3 has -1"),
        ({"step": [1, 2, 3, 2]}, "step", "2 is there twice"),
        ({"parent": [-1, 0, 1, 0]}, "parent", "row 3 continues row 0, which is of another trajectory"),
        ({"parent": [-1, 1, 1, -1]}, "parent", "row 1 is its own ancestor"),
        ({"selected": [1.0, 1.0, 1.0, 1.0]}, "selected", "is of type float64"),
        ({"trajectory_rewards": {"r": [1.0]}}, "trajectory_rewards['r']", "has 1 values where 2 are needed"),
        ({"step_rewards": {"r": [0, 0, np.inf, 0]}}, "step_rewards['r']", "row 2 has inf"),
        ({"trajectory_rewards": {"r": [0, -1e31]}}, "trajectory_rewards['r']", "row 1 has -1e+31"),
    ],
)
def test_refusals(changed: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        _two(**changed)
    assert refused.value.field == field
    assert words in str(refused.value)


def test_a_circle_is_found_from_a_row_that_only_leads_into_it() -> None:
    """0 → 1 → 2 → 1"""
    with pytest.raises(InvalidRecord, match=r"^parent: row [12] is its own ancestor"):
        _two(parent=[1, 2, 1, -1])
