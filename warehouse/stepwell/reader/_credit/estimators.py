"""The estimators by name: from rollouts to one number per step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepwell.reader._arrays import F64, I64, Array, Bools, vector
from stepwell.reader._credit import groups, rewards
from stepwell.reader._credit.advantage import Advantage
from stepwell.reader._credit.rollouts import Rollouts


@dataclass(frozen=True, eq=False)
class Comparison:
    """What an estimator looks at: the rollouts, the settings, and who is compared."""

    rollouts: Rollouts
    options: Advantage
    candidates: Bools
    """[S] Steps to be trained on if they turn out to have an advantage."""

    @cached_property
    def reward(self) -> F64:
        """[T] NaN where it is missing."""
        return rewards.of_trajectories(self.rollouts, self.options.rewards, self.options.absent)

    def within(self, known: Bools) -> Bools:
        """[T] Of those whose reward is `known`, the ones that are compared."""
        members = known & self.rollouts.complete
        if self.options.baseline == "selected":
            taken = np.zeros(self.rollouts.trajectories, np.bool_)
            taken[self.rollouts.trajectory[self.candidates]] = True
            members &= taken
        return members

    def grouped(self, compare: Callable[[F64, I64], F64]) -> F64:
        """[S] `compare(values, groups)` of the members of each prompt group, given to their steps; NaN for the others."""
        members = self.within(~np.isnan(self.reward) & (self.rollouts.group >= 0))
        found = np.full(self.rollouts.trajectories, np.nan)
        values, numbers = self.reward[members], groups.numbered(self.rollouts.group[members])
        found[members] = compare(values, numbers)
        if self.options.alone == "reward":
            found[members] = np.where(groups.sizes(numbers) == 1, values, found[members])
        spread: F64 = found[self.rollouts.trajectory]
        return spread

    def whitened(self, values: F64) -> F64:
        """[S] Values standardised over the loss terms of those that are compared."""
        members = ~np.isnan(values) & self.rollouts.complete[self.rollouts.trajectory]
        if self.options.baseline == "selected":
            members &= self.candidates
        return groups.whitened(values, self.rollouts.response_length, members, self.options.eps)


def grpo(of: Comparison) -> F64:
    """`(reward - mean) / (deviation + eps)` of the group; without the division when `std` is False."""
    eps = of.options.eps
    return of.grouped(
        (lambda values, numbers: groups.standardised(values, numbers, eps)) if of.options.std else groups.centred
    )


def rloo(of: Comparison) -> F64:
    """`reward - mean of the group's others`."""
    return of.grouped(groups.against_the_others)


def reinforce(of: Comparison) -> F64:
    """`discount^edges · reward`, edges counted to the deepest step below."""
    found = rewards.paid_at_the_end(of.rollouts, of.reward, of.options.discount)
    return of.whitened(found) if of.options.whiten else found


def reinforce_plus_plus(of: Comparison) -> F64:
    """`reinforce`, less its mean over all tokens and divided by their deviation."""
    return of.whitened(rewards.paid_at_the_end(of.rollouts, of.reward, of.options.discount))


def reinforce_plus_plus_baseline(of: Comparison) -> F64:
    """`reward - mean of the group`, then as `reinforce++`."""
    return of.whitened(of.grouped(groups.centred))


def step(of: Comparison) -> F64:
    """`reward + discount · sum over children of theirs`."""
    options = of.options
    found = rewards.returns(of.rollouts, options.rewards, options.absent, options.discount)
    return of.whitened(found) if options.whiten else found


ESTIMATORS: Mapping[str, Callable[[Comparison], F64]] = {
    "grpo": grpo,
    "rloo": rloo,
    "reinforce": reinforce,
    "reinforce++": reinforce_plus_plus,
    "reinforce++-baseline": reinforce_plus_plus_baseline,
    "step": step,
}


def estimate(rollouts: Rollouts, options: Advantage, candidates: Bools) -> F64:
    """f64 [S] Advantages; NaN where there is none, and for all steps of trajectories that are not complete.

    Raises:
        InvalidRecord: An unknown reward; what one's own callable returned is not of length S or of another type.
    """
    if callable(options.estimator):
        given: Array = vector("advantage", options.estimator(rollouts), np.float64, len(rollouts))
        return given
    found = ESTIMATORS[options.estimator](Comparison(rollouts, options, candidates))
    return np.where(rollouts.complete[rollouts.trajectory], found, np.nan)
