"""`PrefixNodes`: a forest of shared prefixes as nodes, each a run of tokens that the same steps share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, offsets_of
from stepwell.reader._prefix import PrefixOrder, prefix_order
from stepwell.reader._sequences import Sequences
from stepwell.reader._tree import PrefixTree, build_tree


@dataclass(frozen=True, eq=False)
class PrefixNodes:
    """N nodes in depth-first order; a node's subtree is `[node, end[node])`. All arrays i64.

    A node begins where steps part or where one has ended, so that all its tokens are in the same steps. Its tokens are computed once
    when merged, and once per step when not: `tokens * (steps - 1)` of them are saved.
    """

    start: I64
    """[N] Merged tokens before the node; those of its subtree begin there."""
    tokens: I64
    """[N] Its own."""
    stop: I64
    """[N] Merged tokens up to the end of its subtree."""
    end: I64
    """[N] The first node behind its subtree."""
    parent: I64
    """[N] -1 at a root."""
    level: I64
    """[N] Nodes above it."""
    position: I64
    """[N] Of its first token in every step that has it."""
    steps: I64
    """[N] Steps that have it."""
    ended: I64
    """[N] Steps that end with it."""
    before: I64
    """[N] Steps that end before it, in depth-first order; those of its subtree are the `steps` next ones."""
    sampled: I64
    """[N] Tokens of it that some step sampled, and did not read."""
    row: I64
    """[N] A step that has it: the first that ends in its subtree, as a row of the `Sequences`."""
    rows: I64
    """[S] Rows of the `Sequences` in the order in which they end."""

    @classmethod
    def of(cls, sequences: Sequences, kinds: I64 | None = None) -> PrefixNodes:
        """The nodes of all rows. O(rows) steps of Python, and sorting.

        Args:
            kinds: i64 [rows]; rows of different kinds, as of two tokenizers, share nothing. None: all are of one.

        Raises:
            InvalidRecord: a row without tokens; more than 2^31 - 1 merged tokens.
        """
        if len(sequences) and not sequences.lengths.min():
            raise InvalidRecord("tokens", f"{sequences.name(int(sequences.lengths.argmin()))} has none")
        return _nodes(build_tree(sequences, _ordered(sequences, kinds)))

    def __len__(self) -> int:
        return len(self.start)

    @property
    def merged(self) -> int:
        """Tokens, each shared prefix once."""
        return int(self.tokens.sum())

    @property
    def naive(self) -> int:
        """Tokens of all steps, each in full."""
        return int((self.tokens * self.steps).sum())

    @cached_property
    def saved_before(self) -> I64:
        """[N+1] What all nodes before a node save: a subtree saves the difference of two."""
        return offsets_of(self.tokens * (self.steps - 1))

    def path(self, node: int) -> list[int]:
        """From the root down to the node's parent."""
        found: list[int] = []
        while (node := int(self.parent[node])) >= 0:
            found.append(node)
        return found[::-1]


def _ordered(sequences: Sequences, kinds: I64 | None) -> PrefixOrder:
    if kinds is None:
        return prefix_order(sequences)
    parts = [prefix_order(sequences, np.flatnonzero(kinds == kind)) for kind in np.unique(kinds).tolist()]
    nothing = np.zeros(0, np.int64)
    return PrefixOrder(
        np.concatenate([nothing, *(part.order for part in parts)]),
        np.concatenate([nothing, *(part.shared for part in parts)]),
    )


def _nodes(tree: PrefixTree) -> PrefixNodes:
    """Nodes begin where a run of one subtree begins, and behind the last token of every step."""
    by_end = np.argsort(tree.last, kind="stable")
    last, rows = tree.last[by_end], tree.rows[by_end]
    start = np.unique(np.concatenate([tree.segment_start, last + 1]))
    start = start[start < tree.total]
    own_stop = np.append(start[1:], tree.total)[: len(start)]
    stop = tree.segment_end[np.searchsorted(tree.segment_start, start, side="right") - 1]
    end = np.searchsorted(start, stop)
    before = np.searchsorted(last, start)
    chain = np.searchsorted(tree.chain_start, start, side="right") - 1
    above = np.where(start == tree.chain_start[chain], tree.chain_parent[chain], start - 1)
    number = np.arange(len(start))
    covered = _covered(tree)
    return PrefixNodes(
        start=start,
        tokens=own_stop - start,
        stop=stop,
        end=end,
        parent=np.searchsorted(start, above, side="right") - 1,
        # Of the nodes before it in depth-first order, those are above it whose subtrees have not ended yet.
        level=number - np.searchsorted(np.sort(end), number, side="right"),
        position=tree.chain_depth[chain] + start - tree.chain_start[chain],
        steps=np.searchsorted(last, stop) - before,
        ended=np.searchsorted(last, own_stop) - before,
        before=before,
        sampled=covered.upto(own_stop) - covered.upto(start),
        row=rows[before] if len(start) else rows[:0],
        rows=rows,
    )


@dataclass(frozen=True)
class _Covered:
    """Packed positions that some response has, as runs that do not touch."""

    start: I64
    before: I64
    """[runs+1] Positions in the runs before each."""

    def upto(self, position: I64) -> I64:
        """How many lie before each position."""
        if not len(self.start):
            return np.zeros(len(position), np.int64)
        run = np.searchsorted(self.start, position, side="right") - 1
        size = np.diff(self.before)
        inside = np.minimum(position - self.start[run], size[run])
        found: I64 = np.where(run < 0, 0, self.before[run] + inside)
        return found


def _covered(tree: PrefixTree) -> _Covered:
    order = np.argsort(tree.span_start, kind="stable")
    start, stop = tree.span_start[order], (tree.span_start + tree.span_length)[order]
    reached = np.maximum.accumulate(stop) if len(stop) else stop
    first = np.flatnonzero(np.append(True, start[1:] > reached[:-1])[: len(start)])
    final = np.append(first[1:] - 1, len(start) - 1)[: len(first)]
    return _Covered(start[first], offsets_of(reached[final] - start[first]))
