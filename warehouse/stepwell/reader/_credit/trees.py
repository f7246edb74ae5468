"""Arithmetic along parent edges: how deep, how far from the end, what is still to come.

A forest is one array, `parent` [S], the row of each step's parent or -1. The passes go level by level, all trajectories at once,
so that Python takes as many steps as the longest trajectory has, not as there are steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepwell.reader._arrays import F64, I64, Array


def depths(parent: Array) -> I64:
    """i64 [S] Edges up to the root, by pointer doubling. Where links go round, one row has `-1 - row` of a step in the circle."""
    depth = (parent >= 0).astype(np.int64)
    above = parent.astype(np.int64)
    for _ in range(len(parent).bit_length() + 1):
        live = np.flatnonzero(above >= 0)
        if not live.size:
            return depth
        jump = above[live]
        depth[live], above[live] = depth[live] + depth[jump], above[jump]
    row = int(np.flatnonzero(above >= 0)[0])
    for _ in range(len(parent)):  # a row may only lead into the circle; after S edges one is in it
        row = int(parent[row])
    depth[row] = -1 - row
    return depth


def heights(parent: Array, depth: I64) -> I64:
    """i64 [S] Edges down to the deepest step below; 0 at a leaf."""
    height = np.zeros(len(parent), np.int64)
    for rows in _from_the_deepest(depth):
        np.maximum.at(height, parent[rows], height[rows] + 1)
    return height


def reward_to_go(reward: F64, parent: Array, depth: I64, discount: float) -> F64:
    """f64 [S] A step's reward plus `discount` times what each of its children has to go.

    Every reward below a step counts once in it, discounted by the edges between: branches are things that were all done (a
    sub-agent and what came after it), so they add up.
    """
    to_go = reward.copy()
    for rows in _from_the_deepest(depth):
        np.add.at(to_go, parent[rows], discount * to_go[rows])
    return to_go


def _from_the_deepest(depth: I64) -> Iterator[I64]:
    """The rows of each level, the deepest first and without the roots."""
    order = np.argsort(depth, kind="stable")
    borders = np.cumsum(np.bincount(depth)) if len(depth) else np.zeros(0, np.int64)
    for level in range(len(borders) - 1, 0, -1):
        yield order[borders[level - 1] : borders[level]]
