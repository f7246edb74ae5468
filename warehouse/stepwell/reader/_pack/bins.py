"""Sizes into packs, and packs onto ranks. Both are the classic heuristics, deterministic: ties go to the lower number."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heappop, heappush

import numpy as np

from stepwell.reader._arrays import I64


def best_fit_decreasing(sizes: I64, capacity: int) -> list[list[int]]:
    """Items by bin, each bin of at most `capacity`: the largest item first, each into the fullest bin that still takes it."""
    bins: list[list[int]] = []
    room: list[tuple[int, int]] = []
    amounts = sizes.tolist()
    for item in np.argsort(-sizes, kind="stable").tolist():
        size = amounts[item]
        at = bisect_left(room, (size, -1))
        if at == len(room):
            insort(room, (capacity - size, len(bins)))
            bins.append([item])
        else:
            left, number = room.pop(at)
            insort(room, (left - size, number))
            bins[number].append(item)
    return bins


def longest_first(loads: I64, ranks: int) -> list[list[int]]:
    """Items by rank, as many on each as on any other up to the last round: the heaviest first, each to the rank with least so far.

    A rank never gets more than `ceil(items / ranks)`: ranks step together, so one with more packs would make all others wait.
    """
    most = -(-len(loads) // ranks)
    waiting = [(0, rank) for rank in range(ranks)]
    given: list[list[int]] = [[] for _ in range(ranks)]
    amounts = loads.tolist()
    for item in np.argsort(-loads, kind="stable").tolist():
        load, rank = heappop(waiting)
        given[rank].append(item)
        if len(given[rank]) < most:
            heappush(waiting, (load + amounts[item], rank))
    return given
