"""The loss terms some rows of the input are due, and values for them: one term per trained (step, response token)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader import _columns
from stepwell.reader._arrays import F32, I32, I64, Array, Bools, offsets_of, ranges, stretches, vector
from stepwell.reader._sequences import Sequences


@dataclass(frozen=True, eq=False)
class LossTerms:
    """R loss terms of S rows, row by row and in the order of the response within a row."""

    sequences: Sequences
    rows: I64
    """[S] Rows of the sequences."""
    trained: Bools | None
    """[response tokens of the rows] Which of them are trained; None when all are."""

    @classmethod
    def of(cls, sequences: Sequences, rows: I64) -> LossTerms:
        if sequences.loss_mask is None:
            return cls(sequences, rows, None)
        starts = sequences.response_offsets[rows]
        return cls(
            sequences, rows, stretches(sequences.loss_mask, starts, sequences.response_offsets[rows + 1] - starts)
        )

    @property
    def depth(self) -> I32:
        """[R] Position of each trained token in its own sequence."""
        prompts, lengths = self.sequences.prompt_lengths[self.rows], self.sequences.lengths[self.rows]
        depth = ranges(prompts, lengths - prompts, np.int32)
        return depth if self.trained is None else depth[self.trained]

    @property
    def sampled(self) -> I32:
        """[R] The token that each was sampled as."""
        offsets, prompts = self.sequences.offsets, self.sequences.prompt_lengths[self.rows]
        begin = offsets[self.rows] + prompts
        tokens = stretches(self.sequences.tokens, begin, offsets[self.rows + 1] - begin)
        return tokens if self.trained is None else tokens[self.trained]

    def of_responses(self, values: Array) -> Array:
        """[R] What stands at the trained tokens in `values`, an array in response layout."""
        starts = self.sequences.response_offsets[self.rows]
        found = stretches(values, starts, self.sequences.response_offsets[self.rows + 1] - starts)
        return found if self.trained is None else found[self.trained]

    @cached_property
    def offsets(self) -> I64:
        """[S+1] Row s has the terms `[offsets[s], offsets[s+1])`."""
        return offsets_of(self.sequences.trained_lengths[self.rows])

    def weights(self, weight: Any) -> F32:
        """[R] `"token-mean"`, or values as in `values`."""
        if isinstance(weight, str):
            if weight != "token-mean":
                raise InvalidRecord("weight", f"{weight!r} is unknown; use 'token-mean' or an array")
            return np.full(int(self.offsets[-1]), 1.0 / max(1, self.sequences.trained_total), np.float32)
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
        per_step = vector(field, values, np.float32)[self.rows]
        counts = self.offsets[1:] - self.offsets[:-1]
        wrong = ~np.isfinite(per_step) & (counts > 0)
        if wrong.any():
            place = int(wrong.argmax())
            raise self._not_finite(field, place, per_step[place])
        return per_step.repeat(counts)

    def token_values(self, field: str, values: Any) -> F32:
        """[R] from a flat array in response layout or an Arrow list column [N] with a value per response id."""
        found = self.of_responses(self.sequences.per_response_token(field, values))
        finite = np.isfinite(found)
        if not finite.all():
            at = int((~finite).argmax())
            raise self._not_finite(field, _columns.row_of(self.offsets, at), found[at])
        return found

    def _not_finite(self, field: str, place: int, value: Any) -> InvalidRecord:
        step = self.sequences.name(int(self.rows[place]))
        return InvalidRecord(field, f"{step} has the value {value}; leave it out with Sequences.select")
