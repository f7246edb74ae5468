"""The shape of the merged forest, from one pass over the sorted rows.

Laying each row's unshared tokens one after the other puts the trie's nodes in depth-first pre-order: a subtree is
a contiguous range of packed positions, and `visible(q, k)` is `k <= q < subtree_end[k]`. `_walk` finds where subtrees
end and branches hang from lengths alone; no token is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, INT32_MAX, offsets_of, places
from stepwell.reader._prefix import PrefixOrder
from stepwell.reader._sequences import Sequences
from stepwell.reader._walk import NONE, Walk, turns_of


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """Geometry of one batch: S rows in prefix order, T packed positions, C chains. All arrays i64."""

    rows: I64
    """[S] Row of the `Sequences` behind each row of the batch."""
    lengths: I64
    """[S] Tokens of each row, prompt and response."""
    shared: I64
    """[S] Tokens each row shares with the row before it; the others are its own."""
    own_start: I64
    """[S] Packed position of each row's first own token."""
    last: I64
    """[S] Packed position of each row's last token; -1 for an empty row."""
    span_offsets: I64
    """[S+1] CSR into the response spans."""
    span_start: I64
    """[spans] Packed start of a run of response tokens, in order of the response. A response another row
    branches from has several."""
    span_length: I64
    """[spans]"""
    segment_start: I64
    """[segments] Packed start of each run of tokens that have one subtree end; ascending, covers [0, T)."""
    segment_end: I64
    """[segments] The exclusive subtree end they have."""
    chain_start: I64
    """[C] Packed start of each chain, a longest run in which every token is the child of the one before it."""
    chain_depth: I64
    """[C] Depth (position id) of the chain's first token; 0 starts a tree."""
    chain_parent: I64
    """[C] Packed position the chain hangs from; -1 at a root."""
    total: int
    """T."""

    @property
    def chain_lengths(self) -> I64:
        """[C]"""
        return _up_to_next(self.chain_start, self.total)

    @property
    def segment_lengths(self) -> I64:
        """[segments]"""
        return _up_to_next(self.segment_start, self.total)

    def path(self, position: int) -> list[tuple[int, int]]:
        """Packed ranges `(start, stop)` from the root to `position` inclusive: one causal range, and the ancestor
        runs before it. O(runs)."""
        ranges: list[tuple[int, int]] = []
        while position >= 0:
            chain = int(np.searchsorted(self.chain_start, position, side="right")) - 1
            ranges.append((int(self.chain_start[chain]), position + 1))
            position = int(self.chain_parent[chain])
        return ranges[::-1]


def build_tree(sequences: Sequences, prefixes: PrefixOrder) -> PrefixTree:
    """The forest of the rows in `prefixes`. A step of Python for each turn, and for each response that lies in several runs.

    Raises:
        InvalidRecord: A row twice, a shared length that exceeds a row, or more than 2^31 - 1 tokens or terms.
    """
    _check_rows(sequences, prefixes)
    rows, shared = prefixes.order, prefixes.shared
    lengths, prompts = sequences.lengths[rows], sequences.prompt_lengths[rows]
    own = offsets_of(lengths - shared)
    total = int(own[-1])
    turns = places(turns_of(lengths, shared))
    walk = Walk()
    walk.over(turns, shared, lengths, prompts, own)
    walk.leave(0, total)
    shift = np.array(walk.shift, np.int64).repeat(_up_to_next(turns, len(rows)))
    segments = np.array(walk.segments, np.int64).reshape(-1, 2)
    segments = segments[segments[:, 0].argsort()]
    chains = np.array(walk.chains, np.int64).reshape(-1, 3)
    span_offsets, span_start, span_length = walk.responses(lengths, prompts, shift)
    return PrefixTree(
        rows=rows,
        lengths=lengths,
        shared=shared,
        own_start=own[:-1],
        last=shift + lengths - 1,
        span_offsets=span_offsets,
        span_start=span_start,
        span_length=span_length,
        segment_start=segments[:, 0],
        segment_end=segments[:, 1],
        chain_start=chains[:, 0],
        chain_depth=chains[:, 1],
        chain_parent=chains[:, 2],
        total=total,
    )


def _up_to_next(starts: I64, end: int) -> I64:
    return np.concatenate([starts[1:], [end]])[: len(starts)] - starts


def _check_rows(sequences: Sequences, prefixes: PrefixOrder) -> None:
    rows, shared = prefixes.order, prefixes.shared
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(sequences) and _different(rows)):
        raise InvalidRecord("order", f"must hold rows in [0, {len(sequences)}), each at most once")
    lengths = sequences.lengths[rows]
    before = np.concatenate([NONE, lengths])[:-1]
    if ((shared < 0) | (shared > lengths) | (shared > before)).any():
        raise InvalidRecord("shared", "a row cannot share more tokens than it or its predecessor has")
    sizes = (("merged tokens", (lengths - shared).sum()), ("loss terms", sequences.trained_lengths[rows].sum()))
    for what, size in sizes:
        if size > INT32_MAX:
            raise InvalidRecord("tokens", f"{size} {what} do not fit one batch (int32 positions); split it")


def _different(rows: I64) -> bool:
    ascending = np.sort(rows)
    return bool((ascending[1:] != ascending[:-1]).all())
