"""Which packed ranges lie above each chain: its ancestors, as few adjacent runs as there are branchings above it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwell.reader._arrays import I64, offsets_of
from stepwell.reader._tree import PrefixTree


@dataclass(frozen=True, eq=False)
class AncestorRuns:
    """The runs of C chains, K in all, chain by chain and from the root down within a chain. All arrays i64."""

    chain_start: I64
    """[C] Packed position of each chain's first token."""
    chain_stop: I64
    """[C] Exclusive end of each chain."""
    offsets: I64
    """[C+1] Chain c has the runs `[offsets[c], offsets[c+1])`; none when it starts a tree."""
    owner: I64
    """[K] The chain each run lies above."""
    start: I64
    """[K] Packed range of the run ..."""
    stop: I64
    """[K] ... exclusive."""


def ancestor_runs(tree: PrefixTree) -> AncestorRuns:
    """One numpy pass per level of branching: all chains step up to the chain they hang from, until none is left.

    K is the sum of the levels over the chains. The lengths of a chain's runs add up to its first token's depth.
    """
    start, parent = tree.chain_start, tree.chain_parent
    above = np.searchsorted(start, parent, side="right") - 1  # the chain that holds the parent; -1 at a root
    owners, holders, stops = [], [], []
    climbing = np.flatnonzero(parent >= 0)
    at = climbing
    while len(climbing):
        owners.append(climbing)
        holders.append(above[at])
        stops.append(parent[at] + 1)
        at = above[at]
        higher = parent[at] >= 0
        climbing, at = climbing[higher], at[higher]
    owner, holder, stop = (np.concatenate([start[:0], *found]) for found in (owners, holders, stops))
    place = np.lexsort((holder, owner))  # ancestors come before their descendants in depth-first order
    return AncestorRuns(
        chain_start=start,
        chain_stop=start + tree.chain_lengths,
        offsets=offsets_of(np.bincount(owner, minlength=len(start))),
        owner=owner[place],
        start=start[holder[place]],
        stop=stop[place],
    )
