"""Forests of rows in prefix order, as packing sees them: lengths, and what each row shares with the one before it."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from stepwell.reader._arrays import I64


class Forest(NamedTuple):
    lengths: I64
    shared: I64

    def cost(self, start: int, stop: int) -> int:
        """Tokens of the rows [start, stop) when they are computed together, counted one by one."""
        return sum(
            int(length) - (int(shared) if row > start else 0)
            for row, (length, shared) in enumerate(zip(self.lengths, self.shared, strict=True))
            if start <= row < stop
        )


def of(rows: list[tuple[int, int]]) -> Forest:
    """Rows as (shared, own): shared is cut to what the row before has."""
    lengths = list(accumulate(rows, lambda before, row: min(row[0], before) + row[1], initial=0))
    shared = [min(row[0], before) for row, before in zip(rows, lengths, strict=False)]
    return Forest(np.array(lengths[1:], np.int64), np.array(shared, np.int64))


def forests(most: int = 9) -> st.SearchStrategy[Forest]:
    return st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=most).map(of)
