"""The largest nodes of a prefix tree as rectangles, so many at most however large the tree is; what is left out is summed up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, get_args

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, Bools
from stepwell.reader._layout.nodes import PrefixNodes

Measure = Literal["tokens", "steps"]
"""What a rectangle is as wide as: the merged tokens of its subtree, or the steps in it."""


class Cut(IntEnum):
    """What is summed up of nodes that have no rectangle."""

    WIDTH = 0
    NODES = 1
    TOKENS = 2
    SAVED = 3
    STEPS = 4


@dataclass(frozen=True, eq=False)
class Icicle:
    """R rectangles in depth-first order, a parent's before its children's, and what each of them hides. All arrays i64.

    A rectangle is as wide as what its node has of its own, the rectangles of its children and what is cut, all together: its own is first
    (`[x0, x0 + own)`), then its children in their order, and where some of them are cut there is a gap.
    """

    node: I64
    """[R]"""
    x0: I64
    x1: I64
    """[R] From 0 to `width`."""
    own: I64
    """[R] How much of the width is the node's own: its tokens, or the steps that end with it."""
    cut: I64
    """[R, Cut] Its children that have no rectangle, and all that is below those."""
    beside: I64
    """[Cut] Roots that have no rectangle, likewise."""
    width: int


def icicle(nodes: PrefixNodes, node: int | None = None, *, by: Measure = "tokens", pixels: int, most: int) -> Icicle:
    """The tree, or the subtree of a node, as at most `most` rectangles, none narrower than a pixel of a picture of `pixels`.

    A child is never wider than its parent, so that of the widest nodes each has its parent among them.

    Raises:
        InvalidRecord: there is no such node or measure.
    """
    if by not in get_args(Measure):
        raise InvalidRecord("by", f"is {by!r}; must be one of {', '.join(get_args(Measure))}")
    if node is not None and not 0 <= node < len(nodes):
        raise InvalidRecord("node", f"{node} is none of the tree's {len(nodes)} nodes")
    first, beyond = (0, len(nodes)) if node is None else (node, int(nodes.end[node]))
    some = slice(first, beyond)
    begin, wide = _extent(nodes, by)
    x0, size = begin[some], wide[some]
    width = int(size.sum(where=nodes.parent[some] < first)) if beyond > first else 0
    shown = np.zeros(beyond - first, np.bool_)
    shown[np.argsort(-size, kind="stable")[:most]] = True
    shown &= size * pixels >= width
    kept = first + np.flatnonzero(shown)
    left = int(x0[0]) if beyond > first else 0
    beside, *below = _cut(nodes, first, shown, wide).T
    own = nodes.tokens if by == "tokens" else nodes.ended
    return Icicle(
        node=kept,
        x0=begin[kept] - left,
        x1=begin[kept] - left + wide[kept],
        own=own[kept],
        cut=np.array(below, np.int64).reshape(-1, len(Cut)),
        width=width,
        beside=beside,
    )


def _extent(nodes: PrefixNodes, by: Measure) -> tuple[I64, I64]:
    """Where each node begins and how wide it is: depth-first order lays the tree out by itself."""
    return (nodes.start, nodes.stop - nodes.start) if by == "tokens" else (nodes.before, nodes.steps)


def _cut(nodes: PrefixNodes, first: int, shown: Bools, wide: I64) -> I64:
    """[Cut, R+1] What is hidden beside all rectangles, and below each.

    A hidden node hides its subtree, so only those count whose parents are shown.
    """
    parent = nodes.parent[first : first + len(shown)] - first
    top = ~shown & ((parent < 0) | shown[np.maximum(parent, 0)])
    hidden = first + np.flatnonzero(top)
    place = np.cumsum(shown)
    owner = np.where(parent[top] < 0, 0, place[np.maximum(parent[top], 0)])
    end = nodes.end[hidden]
    saved = nodes.saved_before[end] - nodes.saved_before[hidden]
    columns = (wide[hidden], end - hidden, nodes.stop[hidden] - nodes.start[hidden], saved, nodes.steps[hidden])
    return np.stack([_summed(owner, column, int(shown.sum()) + 1) for column in columns])


def _summed(owner: I64, values: I64, count: int) -> I64:
    total = np.zeros(count, np.int64)
    np.add.at(total, owner, values)
    return total
