"""Which steps share which prefix: one sort, then the common prefix of each row with the one before it.

Sorted rows put everything that shares a prefix side by side, so neighbours are all a tree needs to be built from.
Any total order of tokens will do. Comparing the little-endian bytes of int32 ids is one, equal bytes being equal
ids, and it lets the sort run on memcmp over memory that is already there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, I64
from stepwell.reader._columns import binary_view
from stepwell.reader._sequences import Sequences

CHUNK = 8192
"""Tokens compared at a time: long enough to hide numpy's per-call cost, short enough to stay in the L1 cache."""


@dataclass(frozen=True, eq=False)
class PrefixOrder:
    """Rows in prefix order, with what each shares with its predecessor. S rows: all of the input, or a part of it.

    A part is a batch of its own (a pack) when `shared[0]` is 0 and every other row follows the predecessor it was
    compared with, or starts a tree of its own with `shared` 0. Lowering any `shared` keeps the batch exact: it
    trades tokens computed twice for a tree cut there.
    """

    order: I64
    """[S] Row of the `Sequences` in each place. Equal rows keep their input order."""
    shared: I64
    """[S] Length of the common prefix with the row in the place before; 0 in the first."""

    def __post_init__(self) -> None:
        if len(self.order) != len(self.shared):
            raise InvalidRecord("shared", f"has {len(self.shared)} values for {len(self.order)} rows")
        if len(self.shared) and self.shared[0] != 0:
            raise InvalidRecord("shared", "the first row of a batch has no predecessor: its shared length must be 0")


def prefix_order(sequences: Sequences) -> PrefixOrder:
    """Sort all rows and measure shared prefixes. O(total tokens) beyond the sort; a stable sort on memcmp."""
    rows = binary_view(sequences.tokens, sequences.offsets)
    order = pc.call_function("array_sort_indices", [rows]).to_numpy().astype(np.int64)
    return PrefixOrder(order, _neighbour_prefixes(sequences.tokens, sequences.offsets, order))


def _neighbour_prefixes(tokens: I32, offsets: I64, order: I64) -> I64:
    shared = np.zeros(len(order), np.int64)
    starts = offsets[order].tolist()
    lengths = (offsets[order + 1] - offsets[order]).tolist()
    for place in range(1, len(order)):
        limit = min(lengths[place - 1], lengths[place])
        shared[place] = _common_prefix(tokens, starts[place - 1], starts[place], limit)
    return shared


def _common_prefix(tokens: I32, first: int, second: int, limit: int) -> int:
    """Tokens equal from `first` and `second` on, at most `limit`; reads no further than one chunk past the end."""
    for done in range(0, limit, CHUNK):
        size = min(CHUNK, limit - done)
        differs = tokens[first + done : first + done + size] != tokens[second + done : second + done + size]
        at = int(differs.argmax())
        if differs[at]:
            return done + at
    return limit
