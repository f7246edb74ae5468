"""`Rollouts`: the steps of whole prompt groups as columns, which is all that advantages and loss weights look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F64, I32, I64, Array, Bools, vector
from stepwell.reader._credit import trees

REWARD_LIMIT = 1e30
"""Largest magnitude of a reward: differences of larger ones would not fit float32."""


@dataclass(frozen=True, eq=False)
class Rollouts:
    """S steps of T trajectories. Checked, and made contiguous, when it is built.

    Of a prompt group *every* trajectory belongs in here, also one of which nothing is trained on: a baseline that saw
    the selected ones only would move with the filter. Of a trajectory every step belongs in here, once, however many branches
    go through it. Superseded attempts and side calls do not: nothing came of them, and the trajectory's reward is not theirs.

    Raises:
        InvalidRecord: Arrays of unequal length; a number that points outside; a step that is in twice; a parent in another
            trajectory, or links that go round; a reward beyond `REWARD_LIMIT` (so also an infinite one).
    """

    step: I64
    """[S] The caller's number of each step."""
    trajectory: I32
    """[S] Row of T each step belongs to."""
    group: I32
    """[T] Prompt group of each trajectory: any number from 0 upwards, equal ones are compared. -1 when it has none."""
    sequence: I64
    """[S] Turn: the order in which a trajectory's steps were taken. Tells nothing about who follows whom."""
    parent: I32
    """[S] Row of S each step continues; -1 at a root. Rows may come in any order."""
    complete: Bools
    """[T] Whether the trajectory has ended and everything of it is here."""
    selected: Bools
    """[S] Whether the step may have loss terms."""
    response_length: I64
    """[S] Loss terms the step has if it is trained on: its response tokens without those that a loss mask takes out."""
    truncated: Bools | None = None
    """[T] Whether the trajectory was cut off (at a limit of tokens, turns or time) instead of ending by itself. None: not one was."""
    trajectory_rewards: Mapping[str, F64] = field(default_factory=dict)
    """f64 [T] by name. NaN where the trajectory has no such reward; a name that may be asked for is there even if all are NaN."""
    step_rewards: Mapping[str, F64] = field(default_factory=dict)
    """f64 [S] by name. NaN where the step has no such reward."""
    names: Sequence[str] | None = None
    """[T] What errors call the trajectories; their row when None."""

    def __post_init__(self) -> None:
        steps, trajectories = len(np.asarray(self.step)), len(np.asarray(self.group))
        self._set(steps, np.int64, "step", "sequence", "response_length")
        self._set(steps, np.int32, "trajectory", "parent")
        self._set(steps, np.bool_, "selected")
        self._set(trajectories, np.int32, "group")
        self._set(trajectories, np.bool_, "complete", *(() if self.truncated is None else ("truncated",)))
        for name, length in (("trajectory_rewards", trajectories), ("step_rewards", steps)):
            checked = {key: _rewards(f"{name}[{key!r}]", value, length) for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, checked)
        if self.names is not None and len(self.names) != trajectories:
            raise InvalidRecord("names", f"has {len(self.names)} values where {trajectories} are needed")
        self._check_links()

    def __len__(self) -> int:
        """S."""
        return len(self.step)

    @property
    def trajectories(self) -> int:
        """T."""
        return len(self.group)

    @property
    def was_cut(self) -> Bools:
        """[T] `truncated`, False throughout where nothing is said."""
        return np.zeros(self.trajectories, np.bool_) if self.truncated is None else self.truncated

    @cached_property
    def depth(self) -> I64:
        """[S] Parent edges from each step up to its root."""
        return trees.depths(self.parent)

    @cached_property
    def height(self) -> I64:
        """[S] Parent edges from each step down to the deepest step below it: how far the end is."""
        return trees.heights(self.parent, self.depth)

    def name(self, trajectory: int) -> str:
        """What to call a trajectory in an error."""
        return f"trajectory {trajectory if self.names is None else self.names[trajectory]}"

    def _set(self, length: int, dtype: type[np.generic], *fields: str) -> None:
        for name in fields:
            object.__setattr__(self, name, vector(name, getattr(self, name), dtype, length))

    def _check_links(self) -> None:
        steps, trajectories = len(self), self.trajectories
        _inside("trajectory", self.trajectory, 0, trajectories)
        _inside("group", self.group, -1, np.iinfo(np.int32).max)
        _inside("parent", self.parent, -1, steps)
        _inside("response_length", self.response_length, 0, np.iinfo(np.int64).max)
        order = np.sort(self.step)
        if (twice := np.flatnonzero(order[1:] == order[:-1])).size:
            raise InvalidRecord(
                "step", f"{order[twice[0]]} is there twice; a step that several branches share is one row"
            )
        child = np.flatnonzero(self.parent >= 0)
        strange = child[self.trajectory[child] != self.trajectory[self.parent[child]]]
        if strange.size:
            row = int(strange[0])
            raise InvalidRecord("parent", f"row {row} continues row {self.parent[row]}, which is of another trajectory")
        if (round_trip := int(self.depth.min(initial=0))) < 0:
            raise InvalidRecord("parent", f"row {-1 - round_trip} is its own ancestor")


def _inside(field_name: str, values: Array, low: int, stop: int) -> None:
    outside = (values < low) | (values >= stop)
    if outside.any():
        row = int(outside.argmax())
        raise InvalidRecord(field_name, f"row {row} has {values[row]}; must be at least {low} and below {stop}")


def _rewards(field_name: str, values: Any, length: int) -> F64:
    rewards = vector(field_name, values, np.float64, length)
    outside = np.abs(rewards) > REWARD_LIMIT
    if outside.any():
        row = int(outside.argmax())
        raise InvalidRecord(field_name, f"row {row} has {rewards[row]}; must lie within ±{REWARD_LIMIT:g}")
    return rewards
