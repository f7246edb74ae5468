"""Prompt groups of trajectories that are trees, drawn at random, as plain Python objects and as `Rollouts`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stepwell.reader._credit import Rollouts

NAN = float("nan")
NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100), st.just(0.1))


@dataclass
class Step:
    parent: int | None
    """Place of the step it continues among its trajectory's steps."""
    length: int
    selected: bool
    rewards: dict[str, float]


@dataclass
class Trajectory:
    group: int
    complete: bool
    truncated: bool
    rewards: dict[str, float]
    steps: list[Step]


@st.composite
def trajectories(draw: st.DrawFn, *, whole: bool = False) -> list[Trajectory]:
    """Up to eight, with up to six steps each: chains, branches and several roots. `whole`: complete, in a group, every reward given."""

    def rewards(*names: str, sure: bool) -> dict[str, float]:
        return {name: draw(NUMBERS) for name in names if sure or draw(st.integers(0, 4))}

    def steps() -> list[Step]:
        count = draw(st.integers(1, 6))
        parents = [draw(st.none() | st.integers(0, at - 1)) if at else None for at in range(count)]
        return [
            Step(parent, draw(st.integers(0, 5)), draw(st.booleans()), rewards("process", "style", sure=whole))
            for parent in parents
        ]

    def trajectory() -> Trajectory:
        group = draw(st.integers(0 if whole else -1, 2))
        complete = whole or draw(st.integers(0, 4)) > 0
        return Trajectory(group, complete, draw(st.booleans()), rewards("tests", "judge", sure=whole), steps())

    return [trajectory() for _ in range(draw(st.integers(1, 8)))]


def rollouts(given: list[Trajectory], **changed: Any) -> Rollouts:
    """As columns, trajectory by trajectory."""
    steps = [(row, step) for row, one in enumerate(given) for step in one.steps]
    first = np.cumsum([0, *(len(one.steps) for one in given)])
    columns: dict[str, Any] = {
        "step": np.arange(len(steps)) * 10 + 7,
        "trajectory": [row for row, _ in steps],
        "group": [one.group for one in given],
        "sequence": [turn for one in given for turn in range(len(one.steps))],
        "parent": [-1 if step.parent is None else int(first[row]) + step.parent for row, step in steps],
        "complete": [one.complete for one in given],
        "truncated": [one.truncated for one in given],
        "selected": [step.selected for _, step in steps],
        "response_length": [step.length for _, step in steps],
        "trajectory_rewards": {n: [one.rewards.get(n, NAN) for one in given] for n in ("tests", "judge")},
        "step_rewards": {n: [step.rewards.get(n, NAN) for _, step in steps] for n in ("process", "style")},
    }
    return Rollouts(**(columns | changed))


def chain(*rewards: float | None, group: int = 0, final: float | None = None, **changed: Any) -> Trajectory:
    """A complete, selected trajectory without branches, of which each step was given a reward, or none."""
    steps = [
        Step(at - 1 if at else None, 2, True, {} if reward is None else {"process": reward})
        for at, reward in enumerate(rewards)
    ]
    one = Trajectory(group, True, False, {} if final is None else {"tests": final}, steps)
    for name, value in changed.items():
        setattr(one, name, value)
    return one
