"""What steps share according to their lineage, as a forest in the form that packing takes. No token is looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stepwell.reader._arrays import I32, I64
from stepwell.reader._modes import Merge
from stepwell.reader._select.steps import Steps


class Forest(NamedTuple):
    """Rows in an order in which each shares what it can with the one before."""

    lengths: I64
    shared: I64


def forest_of(steps: Steps, shared: I64, rows: I64, kept: I32, merge: Merge) -> Forest:
    """The steps of one optimizer step.

    Args:
        shared: i64 [N] tokens that each step has in common with its parent, negative where that is not known.
        rows: i64 ascending, the steps that train.
        kept: i32 [N] tokens of each response.
    """
    lengths = steps.prompt_length[rows].astype(np.int64) + kept[rows]
    if merge == "none" or not len(rows):
        return Forest(lengths, np.zeros(len(rows), np.int64))
    parent, common = nearest(steps.parent, shared, rows)
    common = np.minimum(common, np.where(parent >= 0, lengths[parent], 0))
    parent = np.where(common > 0, parent, -1)
    if merge == "trajectory":
        return _lines(parent, common, lengths)
    _equal_prompts(steps, rows, parent, common)
    _hang_higher(parent, common)
    return _trees(parent, common, lengths)


def nearest(parents: I32, shared: I64, rows: I64) -> tuple[I64, I64]:
    """For each of `rows` the place, among them, of its nearest ancestor there (-1: none), and the tokens shared with it."""
    parent, common = parents[rows].astype(np.int64), shared[rows].copy()
    while True:
        place = np.minimum(np.searchsorted(rows, parent), len(rows) - 1)
        missing = (parent >= 0) & (rows[place] != parent)
        if not missing.any():
            return np.where(parent >= 0, place, -1), np.where(parent >= 0, common, 0)
        common[missing] = np.minimum(common[missing], shared[parent[missing]])
        parent[missing] = parents[parent[missing]]


def _equal_prompts(steps: Steps, rows: I64, parent: I64, common: I64) -> None:
    """Steps with one prompt, as the first of a group are, hang from the first of them."""
    prompt = np.stack([steps.prompt_key[rows], steps.prompt_length[rows].astype(np.uint64)], axis=1)
    _, first, number = np.unique(prompt, axis=0, return_index=True, return_inverse=True)
    leader = first[number.ravel()]
    length = steps.prompt_length[rows]
    better = (leader != np.arange(len(rows))) & (steps.prompt_key[rows] != 0) & (length > common)
    parent[better], common[better] = leader[better], length[better]


def _hang_higher(parent: I64, common: I64) -> None:
    """What shares no more with its parent than that does with its own shares just as much with the latter, and hangs from there."""
    for _ in range(len(parent)):
        higher = (parent >= 0) & (parent[parent] >= 0) & (common <= common[parent])
        if not higher.any():
            return
        parent[higher] = parent[parent[higher]]


def _lines(parent: I64, common: I64, lengths: I64) -> Forest:
    """Each step goes on with the first that strictly extends it; others begin anew."""
    follows, goes_on = np.full(len(parent), -1, np.int64), np.full(len(parent), -1, np.int64)
    extends = (parent >= 0) & (common == lengths[parent]) & (lengths > common)
    for row in np.flatnonzero(extends).tolist():
        before = int(parent[row])
        if goes_on[before] < 0:
            goes_on[before], follows[row] = row, before
    order: list[int] = []
    for head in np.flatnonzero(follows < 0).tolist():
        row = head
        while row >= 0:
            order.append(row)
            row = int(goes_on[row])
    return Forest(lengths[order], np.where(follows >= 0, common, 0)[order])


def _trees(parent: I64, common: I64, lengths: I64) -> Forest:
    """Depth first, those that share most first: then each shares with the row before it just what it shares with its parent."""
    by_parent = np.lexsort((np.arange(len(parent)), common, parent))
    borders = np.searchsorted(parent[by_parent], np.arange(-1, len(parent) + 1))
    children, first = by_parent.tolist(), borders.tolist()
    waiting, order = children[first[0] : first[1]][::-1], list[int]()
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting += children[first[row + 1] : first[row + 2]]
    seen = np.zeros(len(parent), np.bool_)
    seen[order] = True
    order += np.flatnonzero(~seen).tolist()  # whose links go round; nothing is promised of those
    shared = np.where(seen & (parent >= 0), common, 0)[order]
    return Forest(lengths[order], shared)
