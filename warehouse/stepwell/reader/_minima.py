"""How far back from a place nothing is less than a bound: for many places at once."""

from __future__ import annotations

import numpy as np

from stepwell.reader._arrays import I64


def reach_back(values: I64, place: I64, bound: I64) -> I64:
    """[questions] The lowest i so that all of `values[i + 1 : place + 1]` are at least `bound`; -1 where all down to the first are.

    For n values O(n log n) time and memory, and O(log n) a question: by steps that are halved each time.
    """
    least = [values]  # of the 1, 2, 4, … values up to each place; what has not so many before it is not asked
    while (step := 1 << (len(least) - 1)) < len(values):
        further = least[-1].copy()
        np.minimum(further[step:], least[-1][:-step], out=further[step:])
        least.append(further)
    reached = place.copy()
    for level in range(len(least) - 1, -1, -1):
        back = reached + 1 >= 1 << level
        back[back] = least[level][reached[back]] >= bound[back]
        reached[back] -= 1 << level
    return reached
