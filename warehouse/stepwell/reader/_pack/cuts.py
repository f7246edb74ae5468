"""Where a forest that is larger than a pack is cut.

Rows in prefix order that are computed together, [i, j), take `length[i] + Σ (length[k] - shared[k])` tokens for the others k. A pack that
begins at row i inside a tree thus computes `shared[i]` tokens once more: that is all a cut costs, and the sum of it is minimised.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import pairwise

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, offsets_of

Interval = tuple[int, int]
"""Places [start, stop) in prefix order."""


def pieces_of(lengths: I64, shared: I64, budget: int) -> list[Interval]:
    """The forest as consecutive intervals of at most `budget` tokens each: trees that fit stay whole, others are cut.

    Args:
        lengths: i64 [S] tokens of each row, in prefix order.
        shared: i64 [S] of those, the ones that the row before has, too; 0 where a tree begins.
        budget: tokens of a pack.

    Raises:
        InvalidRecord: a single row is longer than `budget`.
    """
    if len(lengths) and lengths.max() > budget:
        raise InvalidRecord("max_tokens", f"a step of {lengths.max()} tokens does not fit a pack of {budget}")
    before = offsets_of(lengths - shared)
    borders = [*np.flatnonzero(shared == 0).tolist(), len(lengths)]
    found: list[Interval] = []
    for start, stop in pairwise(borders):
        if before[stop] - before[start] <= budget:
            found.append((start, stop))
        else:
            own, again = before[start : stop + 1].tolist(), shared[start:stop].tolist()
            found += [(start + first, start + last) for first, last in cut(own, again, budget)]
    return found


def cut(before: list[int], shared: list[int], budget: int) -> list[Interval]:
    """Cuts of one tree with the least tokens computed again, and of those the fewest. O(n log n), exact among consecutive cuts.

    Args:
        before: [n+1] tokens that the rows before each one have of their own; `before[0]` is counted from.
        shared: [n] as in `pieces_of`.
        budget: no row may be longer than it.

    The best last piece of the first j rows begins at one of the i from which it fits. What does not fit for one j never fits again, so
    a heap with the cheapest start on top needs to drop each start only once.
    """
    count = len(shared)
    again, parts, begun = [0] * (count + 1), [0] * (count + 1), [0] * (count + 1)
    starts: list[tuple[int, int, int]] = []
    for stop in range(1, count + 1):
        new = stop - 1
        heappush(starts, (again[new] + (shared[new] if new else 0), parts[new] + 1, new))
        least = before[stop] - budget
        while before[starts[0][2]] - shared[starts[0][2]] < least:
            heappop(starts)
        again[stop], parts[stop], begun[stop] = starts[0]
    found: list[Interval] = []
    while count:
        found.append((begun[count], count))
        count = begun[count]
    return found[::-1]
