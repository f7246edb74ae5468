"""Arithmetic within prompt groups, over trajectories: a trajectory counts once, however many steps it has."""

from __future__ import annotations

import numpy as np

from stepwell.reader._arrays import F64, I64, Array, Bools


def numbered(values: Array) -> I64:
    """Any numbering as 0, 1, … without gaps: i64 of the same length."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def sizes(groups: I64) -> I64:
    """For each member, how many its group has. `groups` as `numbered` gives them, here and below."""
    return np.bincount(groups)[groups]


def constant(values: F64, groups: I64) -> Bools:
    """For each member, whether all values of its group are the same number (true of a group of one)."""
    first = np.unique(groups, return_index=True)[1]
    differs = values != values[first][groups]
    same: Bools = (np.bincount(groups, differs) == 0)[groups]
    return same


def centred(values: F64, groups: I64) -> F64:
    """Values less their group's mean; exactly 0 where all are the same, whatever rounding leaves of the mean."""
    less: F64 = values - (np.bincount(groups, values) / np.bincount(groups))[groups]
    less[constant(values, groups)] = 0.0
    return less


def standardised(values: F64, groups: I64, eps: float) -> F64:
    """Centred values over the group's sample standard deviation (n - 1) plus `eps`."""
    # Centred first: a variance from raw sums cancels catastrophically when rewards are large and close.
    less = centred(values, groups)
    variance = np.bincount(groups, less**2) / np.maximum(np.bincount(groups) - 1, 1)
    scaled: F64 = less / (np.sqrt(variance) + eps)[groups]
    return scaled


def against_the_others(values: F64, groups: I64) -> F64:
    """Values less the mean of the *other* members of the group; 0 in a group of one."""
    count = sizes(groups)
    # value - (sum - value) / (n - 1) = (value - mean) n / (n - 1)
    less: F64 = centred(values, groups) * (count / np.maximum(count - 1, 1))
    return less


def whitened(values: F64, counts: I64, members: Bools, eps: float) -> F64:
    """All values less the mean of the members', over their deviation (n - 1) plus `eps`; 0 when those are all the same.

    A member counts `counts` times (its tokens); one that counts 0 times, or is none, is only measured against the others.
    """
    times = np.where(members, counts, 0)
    known = values[times > 0]
    if not len(known) or (known == known[0]).all():
        return np.where(np.isnan(values), np.nan, 0.0)
    times = times[times > 0]
    total = int(times.sum())
    mean = float((known * times).sum()) / total
    variance = float(((known - mean) ** 2 * times).sum()) / (total - 1)
    scaled: F64 = (values - mean) / (np.sqrt(variance) + eps)
    return scaled
