"""`Sequences`: the reader's input, one row per step, in flat columns.

Two layouts recur through the whole reader. *Token layout* is prompt ++ response of every row, one after the other.
*Response layout* is the responses alone, in the same row order: logprobs, loss masks and anything else there is one of
per sampled token use it. Nothing is padded, so a position in a layout is always a token that was really there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader import _columns
from stepwell.reader._arrays import F32, I32, I64, Array, Bools, offsets_of, ranges, vector


@dataclass(frozen=True, eq=False)
class Sequences:
    """Steps as token sequences, checked when built. N rows; every array is one-dimensional and contiguous.

    A response may be empty: its row is context only and has no loss terms, just like one whose mask is all false.
    A prompt may be empty only then: the logprob of a trained token is read at the token before it, and the first
    token of an empty prompt has none.

    Raises:
        InvalidRecord: Lengths that disagree, negative ids, a logprob that is not finite, a trained step with
            an empty prompt. The message names the step.
    """

    tokens: I32
    """[total] Token layout."""
    offsets: I64
    """[N+1] Row i is `tokens[offsets[i]:offsets[i+1]]`."""
    prompt_lengths: I64
    """[N] Tokens of row i that are its prompt; the rest is its response."""
    step_index: I64
    """[N] The caller's number of the step in row i. Errors and batches speak of steps by it."""
    old_logprob: F32 | None = None
    """[response total] Response layout: log-probability under the policy that sampled the token. None when
    absent, for the batch as a whole: a batch in which some steps have logprobs and others do not is refused."""
    loss_mask: Bools | None = None
    """[response total] Response layout: tokens that are trained. None means all of them."""

    def __post_init__(self) -> None:
        rows = len(self.prompt_lengths)
        self._set("prompt_lengths", vector("prompt_lengths", self.prompt_lengths, np.int64))
        self._set("tokens", vector("tokens", self.tokens, np.int32))
        self._set("offsets", vector("offsets", self.offsets, np.int64, rows + 1))
        self._set("step_index", vector("step_index", self.step_index, np.int64, rows))
        self._check_lengths()
        total = int(self.response_offsets[-1])
        if self.old_logprob is not None:
            self._set("old_logprob", vector("old_logprob", self.old_logprob, np.float32, total))
        if self.loss_mask is not None:
            self._set("loss_mask", vector("loss_mask", self.loss_mask, np.bool_, total))
        self._check_values()

    @classmethod
    def from_arrow(
        cls,
        prompt_ids: Any,
        response_ids: Any,
        logprobs: Any = None,
        *,
        loss_mask: Any = None,
        step_index: Any = None,
    ) -> Sequences:
        """Sequences from Arrow list columns of N rows each, as a table scan returns them.

        Args:
            prompt_ids: list<int32> (or any integer whose values fit). No nulls.
            response_ids: list<int32>. No nulls; an empty list is an empty response.
            logprobs: list<float>, one per response id, or None. A column that is null throughout counts as None.
                float64 is rounded to float32.
            loss_mask: list<bool>, one per response id, or None for "all".
            step_index: int64 [N]; default 0..N-1.

        Raises:
            InvalidRecord: See the class; also nulls and ids that do not fit 32 bits.
        """
        rows = len(prompt_ids)
        numbers = np.arange(rows, dtype=np.int64) if step_index is None else vector("step_index", step_index, np.int64)
        if not len(response_ids) == len(numbers) == rows:
            found = f"{rows} prompts, {len(response_ids)} responses, {len(numbers)} step numbers"
            raise InvalidRecord("response_ids", f"columns of unequal length: {found}")
        name = _namer(numbers)
        prompts, prompt_offsets = _columns.flatten("prompt_ids", prompt_ids, pa.int32(), name)
        responses, response_offsets = _columns.flatten("response_ids", response_ids, pa.int32(), name)
        tokens, offsets = _columns.join_rows(prompts, prompt_offsets, responses, response_offsets)
        return cls(
            tokens=tokens,
            offsets=offsets,
            prompt_lengths=np.diff(prompt_offsets),
            step_index=numbers,
            old_logprob=_columns.aligned("logprobs", logprobs, pa.float32(), response_offsets, name),
            loss_mask=_columns.aligned("loss_mask", loss_mask, pa.bool_(), response_offsets, name),
        )

    @classmethod
    def from_lists(
        cls,
        prompt_ids: Sequence[Any],
        response_ids: Sequence[Any],
        logprobs: Sequence[Any] | None = None,
        *,
        loss_mask: Sequence[Any] | None = None,
        step_index: Any = None,
    ) -> Sequences:
        """`from_arrow` for Python sequences of lists or numpy arrays; same rules, same errors."""
        name = _namer(np.arange(len(prompt_ids)) if step_index is None else np.asarray(step_index))
        columns = [
            None if rows is None else _columns.to_list_column(field, rows, kind, name)
            for field, rows, kind in (
                ("prompt_ids", prompt_ids, pa.int32()),
                ("response_ids", response_ids, pa.int32()),
                ("logprobs", logprobs, pa.float32()),
                ("loss_mask", loss_mask, pa.bool_()),
            )
        ]
        return cls.from_arrow(*columns[:3], loss_mask=columns[3], step_index=step_index)

    def __len__(self) -> int:
        return len(self.prompt_lengths)

    @cached_property
    def lengths(self) -> I64:
        """[N] Prompt and response tokens of each row."""
        return np.diff(self.offsets)

    @cached_property
    def response_offsets(self) -> I64:
        """[N+1] Row i owns `[response_offsets[i], response_offsets[i+1])` of the response layout."""
        return offsets_of(self.lengths - self.prompt_lengths)

    @cached_property
    def trained_lengths(self) -> I64:
        """[N] Trained tokens of each row: the loss terms it is due."""
        if self.loss_mask is None:
            return np.diff(self.response_offsets)
        before = offsets_of(self.loss_mask)
        return before[self.response_offsets[1:]] - before[self.response_offsets[:-1]]

    @property
    def trained_total(self) -> int:
        """Trained tokens of all rows: the denominator of a global token mean."""
        return int(self.trained_lengths.sum())

    def name(self, row: int) -> str:
        """How errors name a row, as in `step 41 (row 3)`."""
        return _namer(self.step_index)(row)

    def select(self, rows: Any) -> Sequences:
        """The given rows (i64, any order) as sequences of their own. Use it to leave out steps *after* baselines
        were computed over the whole group."""
        rows = vector("rows", rows, np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise InvalidRecord("rows", f"must lie in [0, {len(self)})")
        lengths = self.lengths[rows]
        response = ranges(self.response_offsets[rows], lengths - self.prompt_lengths[rows])
        return Sequences(
            tokens=self.tokens[ranges(self.offsets[rows], lengths)],
            offsets=offsets_of(lengths),
            prompt_lengths=self.prompt_lengths[rows],
            step_index=self.step_index[rows],
            old_logprob=None if self.old_logprob is None else self.old_logprob[response],
            loss_mask=None if self.loss_mask is None else self.loss_mask[response],
        )

    def per_response_token(self, field: str, values: Any) -> F32:
        """Values as f32 in response layout, from a flat array [response total] or a list column [N].

        A list column is checked row by row, so it cannot be misaligned with the responses.
        """
        if not _columns.is_list_column(values):
            return vector(field, values, np.float32, int(self.response_offsets[-1]))
        flat = _columns.aligned(field, values, pa.float32(), self.response_offsets, self.name)
        if flat is None:
            raise InvalidRecord(field, "is null in every row; pass None when it is absent")
        return flat

    def _set(self, field: str, value: Array) -> None:
        object.__setattr__(self, field, value)  # frozen: fields are normalised once, while constructing

    def _check_lengths(self) -> None:
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.tokens):
            raise InvalidRecord("offsets", f"must run from 0 to {len(self.tokens)}, the number of tokens")
        wrong = (self.prompt_lengths < 0) | (self.prompt_lengths > self.lengths)
        if wrong.any():
            row = int(wrong.argmax())
            found = f"{self.prompt_lengths[row]} prompt tokens of {self.lengths[row]} in all"
            raise InvalidRecord("prompt_lengths", f"{self.name(row)} has {found}")

    def _check_values(self) -> None:
        if len(self.tokens) and self.tokens.min() < 0:
            at = int((self.tokens < 0).argmax())
            row = _columns.row_of(self.offsets, at)
            raise InvalidRecord("tokens", f"{self.name(row)} holds the negative id {self.tokens[at]}")
        if self.old_logprob is not None:
            self._refuse_non_finite(self.old_logprob)
        orphan = (self.prompt_lengths == 0) & (self.trained_lengths > 0)
        if orphan.any():
            row = int(orphan.argmax())
            why = "its first token has no token before it to be predicted from; give it a prompt or mask its response"
            raise InvalidRecord("prompt_ids", f"{self.name(row)} is trained but has an empty prompt: {why}")

    def _refuse_non_finite(self, logprobs: F32) -> None:
        finite = np.isfinite(logprobs)
        if not finite.all():
            at = int((~finite).argmax())
            row = _columns.row_of(self.response_offsets, at)
            where = f"{self.name(row)}, response token {at - int(self.response_offsets[row])}"
            raise InvalidRecord("logprobs", f"{where} is {logprobs[at]}; leave the step out, or all logprobs")


def _namer(step_index: Array) -> _columns.Namer:
    return lambda row: f"step {step_index[row]} (row {row})"
