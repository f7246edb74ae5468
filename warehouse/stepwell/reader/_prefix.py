"""Which steps share which prefix: one sort, and the common prefix of each row with the one before it.

Sorted rows put everything that shares a prefix side by side, so neighbours are all a tree needs to be built from.
Any total order of tokens will do. Comparing the little-endian bytes of int32 ids is one, equal bytes being equal
ids, and it lets the sort run on memcmp over memory that is already there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, I64, Bools, vector
from stepwell.reader._columns import binary_view
from stepwell.reader._minima import reach_back
from stepwell.reader._sequences import Sequences

CHUNK = 8192
"""Most tokens compared at a time: long enough to hide numpy's per-call cost, short enough to stay in the L1 cache."""


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


def prefix_order(sequences: Sequences, rows: I64 | None = None) -> PrefixOrder:
    """Sort the rows (i64 [S], by default all) and measure shared prefixes. One look at each token; exact whatever the order they come in.

    Steps come in the order of their trajectories, so most rows begin with the whole of the row before them. Such a *run* needs no
    sorting: its last row has all others in it. So only the last ones are sorted and compared, on memcmp over memory that is there
    already, and the places of the others follow from their lengths.
    """
    rows = np.arange(len(sequences), dtype=np.int64) if rows is None else vector("rows", rows, np.int64)
    if len(rows) < 2:
        return PrefixOrder(rows, np.zeros(len(rows), np.int64))
    tokens, starts, lengths = sequences.tokens, sequences.offsets[rows], sequences.lengths[rows]
    last = np.append(~_continued(tokens, starts, lengths), True)
    if 2 * np.count_nonzero(last) > len(rows):
        last[:] = True  # hardly any runs: as rows are sorted where they lie, taking most of them apart would only copy
    leaves = np.flatnonzero(last)
    order = _sorted(sequences, rows[leaves])
    leaves = leaves[order]
    common = neighbour_prefixes(tokens, starts[leaves], lengths[leaves])
    place = np.empty(len(leaves), np.int64)
    place[order] = np.arange(len(leaves))
    return _placed(rows, lengths, common, place[np.cumsum(last) - last])


def _placed(rows: I64, lengths: I64, common: I64, leaf: I64) -> PrefixOrder:
    """All rows in order, from that of the last rows of their runs.

    A row of n tokens stands before the first leaf that begins with it. That is as far before its own `leaf` [S] as neighbours
    have n tokens in `common` [leaves]; and of several rows at one leaf, which are prefixes of each other, the shorter one is first.
    """
    first = reach_back(np.append(-1, common[1:]), leaf, lengths)
    order = np.lexsort((lengths, first))
    first, lengths = first[order], lengths[order]
    shared = np.minimum(lengths, np.append(0, lengths[:-1]))
    other = (
        np.flatnonzero(np.diff(first)) + 1
    )  # leaves between these and the ones before equal those, or rows would stand at them
    shared[other] = np.minimum(shared[other], common[first[other]])
    return PrefixOrder(rows[order], shared)


def _continued(tokens: I32, starts: I64, lengths: I64) -> Bools:
    """[S-1] Whether the next row begins with the whole of each row."""
    size, here, there = lengths[:-1], starts[:-1], starts[1:]
    continued = size <= lengths[1:]
    asked = np.flatnonzero(continued & (size > 0))
    end = size[asked] - 1
    alike = tokens[here[asked] + end] == tokens[there[asked] + end]  # where rows part, the last token tells as a rule
    continued[asked] = alike
    asked = asked[alike]
    continued[asked] = _equal_stretches(tokens, here[asked], there[asked], size[asked])
    return continued


def _equal_stretches(tokens: I32, one: I64, other: I64, sizes: I64) -> Bools:
    """[n] Whether as many tokens from `one` on are those from `other` on. By memcmp, as Arrow compares two columns of binary values.

    A column's values lie one behind the other, so the stretches are every second of them, and those between are what lies between. Places
    that go back begin other columns.
    """
    equal = np.ones(len(sizes), np.bool_)
    back = np.flatnonzero((np.diff(one) < sizes[:-1]) | (np.diff(other) < sizes[:-1])) + 1
    for start, stop in pairwise([0, *back.tolist(), len(sizes)] if len(sizes) else []):
        columns = []
        for places in (one[start:stop], other[start:stop]):
            borders = np.empty(2 * len(places), np.int64)
            borders[::2], borders[1::2] = places, places + sizes[start:stop]
            columns.append(binary_view(tokens, borders))
        same = pc.call_function("equal", columns)
        equal[start:stop] = same.to_numpy(zero_copy_only=False)[::2]
    return equal


def _sorted(sequences: Sequences, rows: I64) -> I64:
    """The places of `rows` in the order of their bytes; equal ones as they came."""
    view = binary_view(sequences.tokens, sequences.offsets)
    if not (len(rows) == len(view) and bool((rows == np.arange(len(rows))).all())):
        view = view.take(pa.array(rows))
    order: I64 = pc.call_function("array_sort_indices", [view]).to_numpy().astype(np.int64)
    return order


def neighbour_prefixes(tokens: I32, starts: I64, lengths: I64) -> I64:
    """[S] Tokens in common with the row before; 0 in the first place."""
    shared = np.zeros(len(starts), np.int64)
    begin, size = starts.tolist(), lengths.tolist()
    for place in range(1, len(begin)):
        shared[place] = _common_prefix(tokens, begin[place - 1], begin[place], min(size[place - 1], size[place]))
    return shared


def _common_prefix(tokens: I32, first: int, second: int, limit: int) -> int:
    """Tokens equal from `first` and `second` on, at most `limit`; reads no further than one chunk past the end."""
    done, size = 0, CHUNK // 8  # most neighbours part early: what is read at a time grows with what was equal
    while done < limit:
        size = min(size, limit - done)
        differs = tokens[first + done : first + done + size] != tokens[second + done : second + done + size]
        at = int(differs.argmax())
        if differs[at]:
            return done + at
        done, size = done + size, min(2 * size, CHUNK)
    return limit
