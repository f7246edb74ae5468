"""The shape of the merged forest, from one pass over the sorted rows.

Laying each row's unshared tokens one after the other puts the trie's nodes in depth-first pre-order: a subtree is
a contiguous range of packed positions, and `visible(q, k)` is `k <= q < subtree_end[k]`. The pass below walks the
rows with a stack that holds the current root-to-leaf path as *segments*, each a run of adjacent packed positions.
A row pops what it does not share, and pushes what is new. It handles lengths only and never looks at a token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, INT32_MAX, offsets_of
from stepwell.reader._prefix import PrefixOrder
from stepwell.reader._sequences import Sequences


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
        return np.diff(self.chain_start, append=self.total)

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
    """The forest of the rows in `prefixes`. O(S + spans) steps of Python.

    Raises:
        InvalidRecord: A row twice, a shared length that exceeds a row, or more than 2^31 - 1 tokens or terms.
    """
    _check_rows(sequences, prefixes)
    rows, shared = prefixes.order, prefixes.shared
    lengths = sequences.lengths[rows]
    own = offsets_of(lengths - shared)
    total = int(own[-1])
    walk = _Walk()
    columns = (shared, lengths, sequences.prompt_lengths[rows], own[:-1])
    for values in zip(*(column.tolist() for column in columns), strict=True):
        walk.row(*values)
    walk.leave(0, total)
    segments = np.array(walk.segments, np.int64).reshape(-1, 2)
    segments = segments[np.argsort(segments[:, 0])]
    return PrefixTree(
        rows=rows,
        lengths=lengths,
        shared=shared,
        own_start=own[:-1],
        last=np.array(walk.last, np.int64),
        span_offsets=offsets_of(np.array(walk.span_counts, np.int64)),
        span_start=np.array(walk.span_start, np.int64),
        span_length=np.array(walk.span_length, np.int64),
        segment_start=segments[:, 0],
        segment_end=segments[:, 1],
        chain_start=np.array(walk.chain_start, np.int64),
        chain_depth=np.array(walk.chain_depth, np.int64),
        chain_parent=np.array(walk.chain_parent, np.int64),
        total=total,
    )


def _check_rows(sequences: Sequences, prefixes: PrefixOrder) -> None:
    rows, shared = prefixes.order, prefixes.shared
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(sequences) and np.bincount(rows).max() == 1):
        raise InvalidRecord("order", f"must hold rows in [0, {len(sequences)}), each at most once")
    lengths = sequences.lengths[rows]
    if ((shared < 0) | (shared > lengths) | (shared > np.append(0, lengths)[: len(rows)])).any():
        raise InvalidRecord("shared", "a row cannot share more tokens than it or its predecessor has")
    sizes = (("merged tokens", (lengths - shared).sum()), ("loss terms", sequences.trained_lengths[rows].sum()))
    for what, size in sizes:
        if size > INT32_MAX:
            raise InvalidRecord("tokens", f"{size} {what} do not fit one batch (int32 positions); split it")


@dataclass
class _Walk:
    """The path to the current row as a stack of `[depth, depth_end, packed_start]`, and what was found on the way."""

    path: list[list[int]] = field(default_factory=list)
    segments: list[tuple[int, int]] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    span_counts: list[int] = field(default_factory=list)
    span_start: list[int] = field(default_factory=list)
    span_length: list[int] = field(default_factory=list)
    chain_start: list[int] = field(default_factory=list)
    chain_depth: list[int] = field(default_factory=list)
    chain_parent: list[int] = field(default_factory=list)

    def row(self, shared: int, length: int, prompt_length: int, own_start: int) -> None:
        self.leave(shared, own_start)
        if length > shared:
            self._enter(shared, length, own_start)
        self.last.append(self._position(length - 1) if length else -1)
        self._respond(prompt_length, length)

    def leave(self, depth: int, position: int) -> None:
        """Take everything at `depth` and deeper off the path: its subtrees end at packed `position`."""
        path = self.path
        while path and path[-1][0] >= depth:
            _, _, start = path.pop()
            self.segments.append((start, position))
        if path and path[-1][1] > depth:
            top_depth, _, start = path[-1]
            self.segments.append((start + depth - top_depth, position))
            path[-1][1] = depth

    def _enter(self, depth: int, depth_end: int, position: int) -> None:
        parent = self._position(depth - 1) if depth else -1
        if depth and parent + 1 == position:
            self.path[-1][1] = depth_end
            return
        self.path.append([depth, depth_end, position])
        self.chain_start.append(position)
        self.chain_depth.append(depth)
        self.chain_parent.append(parent)

    def _position(self, depth: int) -> int:
        """Packed position of the path's token at `depth`, which must be its deepest."""
        top_depth, _, start = self.path[-1]
        return start + depth - top_depth

    def _respond(self, prompt_length: int, length: int) -> None:
        """Record where depths [prompt_length, length) of the path lie, as spans in ascending order."""
        first = len(self.span_start)
        at = len(self.path) - 1
        end = length
        while end > prompt_length:
            depth, _, start = self.path[at]
            begin = max(depth, prompt_length)
            self.span_start.append(start + begin - depth)
            self.span_length.append(end - begin)
            end, at = begin, at - 1
        self.span_start[first:] = self.span_start[first:][::-1]
        self.span_length[first:] = self.span_length[first:][::-1]
        self.span_counts.append(len(self.span_start) - first)
