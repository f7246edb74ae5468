"""Advantages of trajectories from their rewards, and their spreading over steps.

Baselines are over *trajectories*: a trajectory counts once in its group however many steps it has. Computing them
over steps, or over the rows a trainer is handed, weights long trajectories more and is another estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, F64, I64, Bools, vector

REWARD_LIMIT = 1e30
"""Largest magnitude of a reward: differences of larger ones would not fit float32."""


def grpo(rewards: Any, groups: Any, std: bool = True, *, eps: float = 1e-6) -> F32:
    """Group-relative advantages, `(reward - mean) / (deviation + eps)` within each group (GRPO, arXiv 2402.03300).

    Args:
        rewards: float [trajectories]. NaN means missing.
        groups: int [trajectories], any numbering: equal numbers form a prompt group.
        std: Divide by the group's sample standard deviation (n - 1, as trainers' `torch.std` does). False gives
            the mean-centred form of Dr. GRPO (arXiv 2503.20783).
        eps: Added to the deviation.

    Returns:
        f32 [trajectories], where

        - a **missing reward** gives NaN, and does not count in its group's mean and deviation. `merge` refuses to
          train on NaN, so leave such trajectories out: `np.isnan` of the result tells which they are;
        - a **group of one** (one reward that is not missing) gives 0: nothing to compare with. Some trainers use
          the bare reward instead;
        - a group whose rewards are **all equal** gives exactly 0, with no rounding residue divided by `eps`.

    Raises:
        InvalidRecord: A reward beyond `REWARD_LIMIT` (so also an infinite one), or arrays of unequal length.
    """
    values = vector("rewards", rewards, np.float64)
    outside = np.abs(values) > REWARD_LIMIT
    if outside.any():
        row = int(outside.argmax())
        raise InvalidRecord("rewards", f"trajectory {row} has {values[row]}; must lie within ±{REWARD_LIMIT:g}")
    numbers = vector("groups", groups, np.int64, len(values))
    present = ~np.isnan(values)
    advantage = np.full(len(values), np.nan, np.float32)
    _, members = np.unique(numbers[present], return_inverse=True)
    advantage[present] = _within_groups(values[present], members, eps if std else None)
    return advantage


def spread_to_steps(values: Any, trajectories: Any) -> F32:
    """Per-trajectory values as per-step values: f32 [steps], where `trajectories` i64 [steps] says whose each is.

    Raises:
        InvalidRecord: A step's trajectory is not a row of `values`.
    """
    values = vector("values", values, np.float32)
    index = vector("trajectories", trajectories, np.int64)
    outside = (index < 0) | (index >= len(values))
    if outside.any():
        row = int(outside.argmax())
        raise InvalidRecord("trajectories", f"row {row} points at trajectory {index[row]} of {len(values)}")
    spread: F32 = values[index]
    return spread


def _within_groups(values: F64, members: I64, eps: float | None) -> F64:
    """Centred (and with `eps` scaled) values; `members` numbers each value's group from 0."""
    counts = np.bincount(members)
    centred = values - (np.bincount(members, values) / counts)[members]
    centred[_constant(values, members)[members]] = 0.0
    if eps is None:
        return centred
    # Centred first: a variance from raw sums cancels catastrophically when rewards are large and close.
    variance = np.bincount(members, centred**2) / np.maximum(counts - 1, 1)
    return centred / (np.sqrt(variance) + eps)[members]


def _constant(values: F64, members: I64) -> Bools:
    """[groups] Whether all values of a group are the same number (true of a group of one)."""
    first = np.unique(members, return_index=True)[1]
    differs = values != values[first][members]
    constant: Bools = np.bincount(members, differs) == 0
    return constant
