"""The loss terms some rows of the input are due, and values for them: one term per trained (step, response token)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader import _columns
from stepwell.reader._arrays import F32, I64, Array, Bools, offsets_of, ranges, vector
from stepwell.reader._sequences import Sequences


@dataclass(frozen=True, eq=False)
class LossTerms:
    """R loss terms of S rows, row by row and in the order of the response within a row."""

    sequences: Sequences
    rows: I64
    """[S] Rows of the sequences."""
    trained: Bools | None
    """[response tokens of the rows] Which of them are trained; None when all are."""
    response: I64
    """[R] Position of each trained token in the response layout."""

    @classmethod
    def of(cls, sequences: Sequences, rows: I64) -> LossTerms:
        starts = sequences.response_offsets[rows]
        response = ranges(starts, sequences.response_offsets[rows + 1] - starts)
        if sequences.loss_mask is None:
            return cls(sequences, rows, None, response)
        trained = sequences.loss_mask[response]
        return cls(sequences, rows, trained, response[trained])

    @cached_property
    def offsets(self) -> I64:
        """[S+1] Row s has the terms `[offsets[s], offsets[s+1])`."""
        return offsets_of(self.sequences.trained_lengths[self.rows])

    @cached_property
    def depth(self) -> I64:
        """[R] Position of each trained token in its own sequence."""
        counts = np.diff(self.offsets)
        shift = self.sequences.prompt_lengths[self.rows] - self.sequences.response_offsets[self.rows]
        return self.response + np.repeat(shift, counts)

    @property
    def sampled(self) -> I64:
        """[R] Position of each trained token in the token layout."""
        return self.depth + np.repeat(self.sequences.offsets[self.rows], np.diff(self.offsets))

    def weights(self, weight: Any) -> F32:
        """[R] `"token-mean"`, or values as in `values`."""
        if isinstance(weight, str):
            if weight != "token-mean":
                raise InvalidRecord("weight", f"{weight!r} is unknown; use 'token-mean' or an array")
            return np.full(len(self.response), 1.0 / max(1, self.sequences.trained_total), np.float32)
        return self.values("weight", weight)

    def values(self, field: str, values: Any) -> F32:
        """[R] from f32 [N], one per step, or from an Arrow list column [N], one per response id.

        A flat array is never taken to be per response token: whether it could be would hang on its length.
        """
        if _columns.is_list_column(values):
            return self.token_values(field, values)
        if np.shape(values) != (len(self.sequences),):
            wanted = f"give {len(self.sequences)} values, one per step, or an Arrow list column for one per response id"
            raise InvalidRecord(field, f"has shape {np.shape(values)}; {wanted}")
        per_step = vector(field, values, np.float32)
        return self._finite(field, np.repeat(per_step[self.rows], np.diff(self.offsets)))

    def token_values(self, field: str, values: Any) -> F32:
        """[R] from a flat array in response layout or an Arrow list column [N] with a value per response id."""
        return self._finite(field, self.sequences.per_response_token(field, values)[self.response])

    def _finite(self, field: str, values: Array) -> F32:
        finite = np.isfinite(values)
        if not finite.all():
            at = int((~finite).argmax())
            step = self.sequences.name(int(self.rows[_columns.row_of(self.offsets, at)]))
            raise InvalidRecord(field, f"{step} has the value {values[at]}; leave it out with Sequences.select")
        return values
