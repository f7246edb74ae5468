"""Rows of unequal length as rectangles, for trainers that take those. Nothing is cut: what does not fit is refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, Array, ranges


class Block:
    """Where the values of B rows go in a rectangle [B, width], to its left or to its right side."""

    def __init__(self, lengths: I64, width: int | None, *, name: str, right: bool) -> None:
        """`width` None: as wide as the longest row. `right`: values end at the right side, and padding is on the left.

        Raises:
            InvalidRecord: a row is longer than `width`.
        """
        longest = int(lengths.max(initial=0))
        self.width = longest if width is None else width
        if longest > self.width:
            raise InvalidRecord(
                name, f"is {self.width}, and the longest row has {longest} tokens there: nothing is cut, so widen it"
            )
        starts = np.arange(len(lengths)) * self.width + (self.width - lengths if right else 0)
        self._shape, self._places = (len(lengths), self.width), ranges(starts, lengths)

    def filled(self, values: Array, padding: Any, dtype: type[np.generic]) -> Array:
        """[B, width] `values`, row after row in token layout, and `padding` beside them."""
        block = np.full(self._shape, padding, dtype)
        block.reshape(-1)[self._places] = values
        return block
