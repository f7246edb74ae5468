"""Several rewards by name as one: per trajectory, or as what each step still has to go."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F64, Bools
from stepwell.reader._credit import trees
from stepwell.reader._credit.rollouts import Rollouts


def of_trajectories(rollouts: Rollouts, weights: Mapping[str, float] | None, absent: float | None) -> F64:
    """f64 [T] The weighted sum of the trajectory's rewards; NaN where one is missing. `Advantage` says what the arguments mean.

    Raises:
        InvalidRecord: A weight for a name that no trajectory can have.
    """
    named = rollouts.trajectory_rewards
    if weights is None:
        return _filled(_sum_of_present(named, rollouts.trajectories), absent)
    weights = _known(weights, named)
    total = np.zeros(rollouts.trajectories)
    for name, weight in weights.items():
        total += weight * _filled(named[name], absent)
    return total


def returns(rollouts: Rollouts, weights: Mapping[str, float] | None, absent: float | None, discount: float) -> F64:
    """f64 [S] What each step and those below it were given, discounted by parent edges; NaN where a reward is missing.

    Raises:
        InvalidRecord: A weight for a name that neither steps nor trajectories can have.
    """
    here, at_the_end = rollouts.step_rewards, rollouts.trajectory_rewards
    if weights is None:
        paid = _sum_of_present(here, len(rollouts))
        end = _end(_rewarded(rollouts, paid), absent)
        return _to_go(rollouts, np.nan_to_num(paid), end, discount)
    weights = _known(weights, {**at_the_end, **here})
    paid, end = np.zeros(len(rollouts)), np.zeros(rollouts.trajectories)
    for name, weight in weights.items():
        if name in here:
            paid += weight * np.nan_to_num(here[name])
            end += weight * _end(_rewarded(rollouts, here[name]), absent)
        else:
            end += weight * _filled(at_the_end[name], absent)
    return _to_go(rollouts, paid, end, discount)


def paid_at_the_end(rollouts: Rollouts, reward: F64, discount: float) -> F64:
    """f64 [S] The trajectory's reward [T], discounted by the parent edges to the deepest step below."""
    discounted: F64 = discount**rollouts.height * reward[rollouts.trajectory]
    return discounted


def _to_go(rollouts: Rollouts, paid: F64, end: F64, discount: float) -> F64:
    earned = trees.reward_to_go(paid, rollouts.parent, rollouts.depth, discount)
    return earned + paid_at_the_end(rollouts, end, discount)


def _end(rewarded: Bools, absent: float | None) -> F64:
    """[T] What stands for step rewards that are absent altogether, and is paid where the trajectory ends."""
    return np.where(rewarded, 0.0, np.nan if absent is None else absent)


def _rewarded(rollouts: Rollouts, reward: F64) -> Bools:
    """[T] Whether any step of the trajectory has the reward [S]."""
    found = np.zeros(rollouts.trajectories, np.bool_)
    found[rollouts.trajectory[~np.isnan(reward)]] = True
    return found


def _sum_of_present(named: Mapping[str, F64], length: int) -> F64:
    """The sum over names of what is there; NaN where nothing is."""
    total, found = np.zeros(length), np.zeros(length, np.bool_)
    for values in named.values():
        present = ~np.isnan(values)
        total[present] += values[present]
        found |= present
    total[~found] = np.nan
    return total


def _filled(values: F64, absent: float | None) -> F64:
    return values if absent is None else np.where(np.isnan(values), absent, values)


def _known(weights: Mapping[str, float], named: Mapping[str, F64]) -> dict[str, float]:
    """The weights that count: what weighs 0 need not be there either."""
    unknown = [name for name in weights if name not in named]
    if unknown:
        there = ", ".join(sorted(named)) or "none"
        raise InvalidRecord("advantage.rewards", f"there is no reward {unknown[0]!r}; there are: {there}")
    return {name: weight for name, weight in weights.items() if weight}
