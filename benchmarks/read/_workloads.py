"""Made-up rollouts as token sequences: groups of trajectories that share a system prompt and a task, and turn after turn their own past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepwell.reader import Sequences

VOCABULARY = 150_000
_SPREAD = 0.3
"""Lengths vary by so much to either side."""


@dataclass(frozen=True)
class Workload:
    """`groups` x `trajectories` x `turns` steps; ids of the first prompt, of an observation, and of an answer."""

    groups: int
    trajectories: int = 8
    turns: int = 20
    opening: int = 2_000
    observation: int = 32
    answer: int = 64
    seed: int = 0

    @property
    def steps(self) -> int:
        return self.groups * self.trajectories * self.turns


A = Workload(groups=63, observation=85, answer=170)
"""Some 10,080 steps with 45 million tokens, the longest of 8,000."""
B = Workload(groups=3, turns=42, observation=580, answer=580)
"""Some 1,008 steps with 25 million tokens, the longest of 52,000."""
PACKED = Workload(groups=32)
"""32 x 8 x 20."""


class Turn(NamedTuple):
    group: int
    trajectory: int
    """Within its group."""
    number: int
    prompt: NDArray[np.int32]
    response: NDArray[np.int32]
    logprobs: NDArray[np.float32]


def turns_of(shape: Workload, group: int) -> Iterator[Turn]:
    """The turns of one group, trajectory by trajectory."""
    shared, chance = np.random.default_rng([shape.seed]), np.random.default_rng([shape.seed, group])
    task = np.concatenate([_ids(shared, shape.opening // 2), _ids(chance, shape.opening - shape.opening // 2)])
    for trajectory in range(shape.trajectories):
        prompt = task
        for number in range(shape.turns):
            response = _ids(chance, _about(chance, shape.answer))
            logprobs = np.log(chance.random(len(response), np.float32) + np.float32(1e-6))
            yield Turn(group, trajectory, number, prompt, response, logprobs)
            prompt = np.concatenate([prompt, response, _ids(chance, _about(chance, shape.observation))])


def sequences_of(shape: Workload) -> Sequences:
    """All steps of a workload in the order group, trajectory, turn."""
    turns = [turn for group in range(shape.groups) for turn in turns_of(shape, group)]
    lengths = [len(turn.prompt) + len(turn.response) for turn in turns]
    return Sequences(
        tokens=np.concatenate([part for turn in turns for part in (turn.prompt, turn.response)]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        prompt_lengths=np.array([len(turn.prompt) for turn in turns]),
        step_index=np.arange(len(turns)),
        old_logprob=np.concatenate([turn.logprobs for turn in turns]),
    )


def _ids(chance: np.random.Generator, count: int) -> NDArray[np.int32]:
    return chance.integers(0, VOCABULARY, count, np.int32)


def _about(chance: np.random.Generator, mean: int) -> int:
    return max(1, int(mean * (1 + _SPREAD * chance.uniform(-1, 1))))
