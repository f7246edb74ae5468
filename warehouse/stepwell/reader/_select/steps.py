"""`Steps`: what is known about every step of the prompt groups at hand, as flat columns of a few dozen bytes per step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from stepwell.reader._arrays import F64, I32, I64, Array, Bools

ABSENT = -1
"""A length, position or number that is not there."""
LOST = -2
"""A parent that is named and not there."""


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of few different texts: a number per row, and the texts."""

    codes: I32
    """-1 where there is none."""
    names: tuple[str, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Coded:
        coded = column.combine_chunks().dictionary_encode()
        codes = coded.indices.fill_null(ABSENT).to_numpy(zero_copy_only=False).astype(np.int32)
        return cls(codes, tuple(coded.dictionary.to_pylist()))

    def name(self, row: int) -> str | None:
        """The text of a row."""
        code = int(self.codes[row])
        return None if code < 0 else self.names[code]


@dataclass(frozen=True, eq=False)
class Trajectories:
    """T trajectories: those of the selection, and all others of their prompt groups."""

    names: pa.Array
    group: I32
    """[T] Row of `groups`; -1 when it has none."""
    groups: pa.Array
    prompt: Coded
    """[T] The task."""
    training: Bools
    """[T] Not of the eval split."""
    ended: Bools
    """[T] Whether it was completed or failed, and lost nothing."""
    rewards: dict[str, F64]
    """f64 [T] by name; NaN where it has no such reward."""


@dataclass(frozen=True, eq=False)
class Steps:
    """N steps in the order group, trajectory, turn. Those of a trajectory are consecutive, and so are those of a group."""

    step_id: pa.Array
    trajectories: Trajectories
    trajectory: I32
    """[N] Row of T."""
    parent: I32
    """[N] Row of N, of the same trajectory; `ABSENT` at a root, `LOST` where it is named and not there."""
    turn: I64
    selected: Bools
    """[N] Whether the selection names it; the others are there for baselines and returns."""
    training: Bools
    """[N] Not of the eval split."""
    superseded: Bools
    side: Bools
    truncated: Bools
    untrainable: Coded
    """[N] Why it may not be trained on, in the warehouse's words; none where it may."""
    derived: Bools
    """[N] Its ids were made from text, by a tokenizer."""
    realised: Bools
    """[N] … by this reader: it has none in the warehouse."""
    prompt_length: I32
    """[N] `ABSENT` without ids."""
    response_length: I32
    logprobs: I32
    """[N] How many; `ABSENT` without."""
    reshaped: Bools
    """[N] Its logprobs, if it has any, are not known to be of the distribution that was sampled from."""
    sampling: Coded
    policy: Coded
    fingerprint: Coded
    drift_at: I32
    """[N] Where its prompt leaves its parent's tokens; `ABSENT` where it does not."""
    drift: Coded
    """[N] The cause."""
    prompt_key: Array
    """u64 [N] Equal for equal prompts, in canonical form; 0 without."""
    rewards: dict[str, F64]
    """f64 [N] by name; NaN where the step has no such reward."""

    def __len__(self) -> int:
        return len(self.trajectory)

    @property
    def lengths(self) -> I64:
        """[N] Prompt and response; nonsense without ids."""
        total: I64 = self.prompt_length.astype(np.int64) + self.response_length
        return total

    @cached_property
    def group(self) -> I32:
        """[N] Row of the trajectories' groups, or -1."""
        found: I32 = self.trajectories.group[self.trajectory]
        return found

    @cached_property
    def unit(self) -> I32:
        """[N] What is put into an optimizer step as a whole: the prompt group, or the trajectory where there is none."""
        alone = len(self.trajectories.groups) + self.trajectory
        return np.where(self.group >= 0, self.group, alone).astype(np.int32)

    def name(self, row: int) -> str:
        """How messages name a step."""
        return f"step {self.step_id[row].as_py()}"

    def name_of_unit(self, row: int) -> str:
        """How messages name the group, or the trajectory, of a step."""
        group = int(self.group[row])
        if group >= 0:
            return f"group {self.trajectories.groups[group].as_py()!r}"
        return f"trajectory {self.trajectories.names[int(self.trajectory[row])].as_py()!r}"
