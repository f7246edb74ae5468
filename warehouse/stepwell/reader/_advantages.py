"""GRPO of bare arrays, for those who have no warehouse. `_credit` has the other estimators, and what they need to know.

Baselines are over *trajectories*: a trajectory counts once in its group however many steps it has. Computing them
over steps, or over the rows a trainer is handed, weights long trajectories more and is another estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, vector
from stepwell.reader._credit import REWARD_LIMIT
from stepwell.reader._credit.groups import centred, numbered, standardised


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
    rewarded, members = values[present], numbered(numbers[present])
    advantage[present] = standardised(rewarded, members, eps) if std else centred(rewarded, members)
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
