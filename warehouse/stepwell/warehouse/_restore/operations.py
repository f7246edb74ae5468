"""The columns that prompts are restored from, as numpy arrays: lists of ids, and operations that copy from a base."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._restore.bases import Places, offsets_of


@dataclass(frozen=True, slots=True)
class Lists:
    """A list column as one run of values: where each row's begin, and how many they are."""

    values: NDArray[np.int32]
    starts: Places
    lengths: Places
    valid: NDArray[np.bool_]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Lists:
        chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        valid = chunk.is_valid().to_numpy(zero_copy_only=False)
        return cls(chunk.values.to_numpy(), offsets[:-1], np.where(valid, np.diff(offsets), 0), valid)


@dataclass(frozen=True, slots=True)
class Operations:
    """One entry for each operation of each row, those of a row behind each other: `copied` ids of what its base has, its prompt and
    behind that its response, from `source` on; then so many of its own.
    """

    row: Places
    source: Places
    copied: Places
    own: Places
    odd: Places
    """Rows whose operations are no triples."""

    @classmethod
    def of(cls, ops: Lists, suffix: Lists, there: NDArray[np.bool_]) -> Operations:
        counts = np.where(there, ops.lengths // 3, 0)
        rows = np.repeat(np.arange(len(counts)), counts)
        first = np.repeat(ops.starts, counts) + 3 * (np.arange(len(rows)) - np.repeat(offsets_of(counts)[:-1], counts))
        alone = np.flatnonzero(there & (counts == 0))  # no operations: all of it is own
        nothing = np.zeros(len(alone), np.int64)
        triples = [ops.values[first + place].astype(np.int64) for place in range(3)]
        row = np.concatenate([rows, alone])
        order = np.argsort(row, kind="stable")
        own = suffix.lengths[alone]
        source, copied, count = (
            np.concatenate(pair)[order] for pair in zip(triples, (nothing, nothing, own), strict=True)
        )
        return cls(row[order], source, copied, count, odd=np.flatnonzero(there & (ops.lengths % 3 != 0)))

    def of_rows(self, kept: NDArray[np.bool_]) -> Operations:
        """Only those of rows that are true in `kept` (bool [rows])."""
        mask = kept[self.row]
        return (
            self
            if mask.all()
            else Operations(self.row[mask], self.source[mask], self.copied[mask], self.own[mask], self.odd)
        )

    def total(self, values: Places, count: int) -> Places:
        """The sum of `values`, one per operation, for each of `count` rows."""
        ends = offsets_of(values)
        borders = np.searchsorted(self.row, np.arange(count + 1))
        sums: Places = ends[borders[1:]] - ends[borders[:-1]]
        return sums

    def within(self, values: Places) -> Places:
        """For each operation, the sum of `values` over those of the same row before it."""
        before = np.cumsum(values) - values
        sums: Places = before - before[np.searchsorted(self.row, self.row)]
        return sums
