"""`Rows`: an optimizer step as trainers without tree attention take it, one token sequence per row with what is due to each token."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, I32, I64, Array, Bools

Mean = Literal["sum", "token-mean", "row-mean"]
"""How a trainer makes one number of its loss terms, over the whole optimizer step: their sum; their mean; or the mean over rows of the
mean over a row's terms."""


@dataclass(frozen=True, eq=False)
class Rows:
    """B rows. Arrays of one value per token are in token layout: row after row, nothing padded.

    Built by `rows_of`. Where a token is not trained, `old_logprob`, `advantage` and `weight` are 0: `trained` says where they mean
    something, and an adapter puts them only where its trainer's mask says the same.
    """

    tokens: I32
    """[total]"""
    offsets: I64
    """[B+1]"""
    trained: Bools
    """[total] Tokens with a loss term. Each was sampled by the engine, and has exactly one."""
    step: I64
    """[total] Row of `steps` of a trained token; -1 of others."""
    weight: F32
    """[total] Of the loss term, global normaliser included."""
    steps: pa.Table
    """[S] step_index, step_id, trajectory_id, group_id, and what `details` were given."""
    old_logprob: F32 | None = None
    """[total]"""
    advantage: F32 | None = None
    """[total]"""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> I64:
        """[B] Tokens."""
        return np.diff(self.offsets)

    @cached_property
    def row(self) -> I64:
        """[total] Row of each token."""
        return np.repeat(np.arange(len(self)), self.lengths)

    @cached_property
    def terms(self) -> I64:
        """[B] Loss terms."""
        return np.bincount(self.row[self.trained], minlength=len(self)).astype(np.int64)

    @cached_property
    def prompt_lengths(self) -> I64:
        """[B] Tokens before the first that is trained. What comes after is the response, as trainers call it: what the policy sampled,
        and between that what its environment said."""
        at = np.flatnonzero(self.trained)
        first = at[np.searchsorted(self.row[at], np.arange(len(self)))]
        return first - self.offsets[:-1]

    @cached_property
    def last_step(self) -> I64:
        """[B] Row of `steps`, the one that the row ends with."""
        at = np.flatnonzero(self.trained)
        return self.step[at[np.searchsorted(self.row[at], np.arange(len(self)), side="right") - 1]]

    @cached_property
    def trajectories(self) -> list[str]:
        """[B] Whose each row is. Rows of a trajectory are consecutive, and so are those of a group."""
        return self.column("trajectory_id", self.last_step)

    @cached_property
    def groups(self) -> list[str]:
        """[B] The prompt group; the trajectory where there is none."""
        found = self.column("group_id", self.last_step)
        return [group or name for group, name in zip(found, self.trajectories, strict=True)]

    @property
    def final(self) -> list[bool]:
        """[B] Whether it is the last row of its trajectory."""
        names = [*self.trajectories, None]
        return [names[row] != names[row + 1] for row in range(len(self))]

    def column(self, name: str, steps: Array) -> list[Any]:
        """Values of a column of `steps`, by its rows.

        Raises:
            InvalidRecord: there is no such column.
        """
        if name not in self.steps.column_names:
            raise InvalidRecord("details", f"lacks {name}: give `details`, as `step_details` reads them")
        values: list[Any] = self.steps[name].take(pa.array(steps)).to_pylist()
        return values

    def of(self, row: int) -> slice:
        """Where the tokens of a row are."""
        return slice(int(self.offsets[row]), int(self.offsets[row + 1]))

    def response(self, row: int) -> slice:
        """Where the response of a row is."""
        return slice(int(self.offsets[row] + self.prompt_lengths[row]), int(self.offsets[row + 1]))

    def need_old_logprob(self) -> F32:
        """`old_logprob`, or InvalidRecord without."""
        if self.old_logprob is None:
            raise InvalidRecord("old_logprob", "is absent, and this trainer takes it: read with old_logprobs=True")
        return self.old_logprob

    def due(self, mean: Mean) -> F32:
        """[total] The advantages with which a trainer's own mean gives our weighted sum: `advantage * weight * n`, where n undoes the mean.

        Exact for losses that scale with the advantage (REINFORCE, PPO-clip, CISPO, GSPO); terms that do not look at it (KL, entropy)
        keep the trainer's mean. With `loss="token-mean"` and a trainer's token mean it is the advantage, unchanged.

        Raises:
            InvalidRecord: there are no advantages; no such mean.
        """
        if self.advantage is None:
            raise InvalidRecord(
                "advantage", "is absent: read with advantage='grpo' or another, or use what trains without (SFT)"
            )
        if mean not in get_args(Mean):
            raise InvalidRecord("mean", f"is {mean!r}; must be one of {', '.join(get_args(Mean))}")
        undone = np.ones(len(self))
        if mean == "token-mean":
            undone[:] = self.terms.sum()
        elif mean == "row-mean":
            undone = len(self) * self.terms.astype(np.float64)
        product = self.advantage.astype(np.float64) * self.weight * undone[self.row]
        return product.astype(np.float32)

    def per_row(self, name: str, values: F32) -> F32:
        """[B] The one value that all terms of a row have.

        Raises:
            InvalidRecord: a row's terms have several: steps of it differ.
        """
        first = self.offsets[:-1] + self.prompt_lengths
        found: F32 = values[first] if len(self) else values[:0]
        wrong = self.trained & ~np.isclose(values, found[self.row], rtol=1e-6, atol=0)
        if wrong.any():
            row = self.trajectories[int(self.row[wrong.argmax()])]
            raise InvalidRecord(
                name,
                f"differs within a row of trajectory {row}, and this trainer takes one per row: read with merge='none'",
            )
        return found

    def check_valid(self, ids: Array, trainer: str) -> None:
        """What the trainer will train on, row after row, are the very tokens that were sampled: no more, no fewer, no others.

        Raises:
            InvalidRecord: they are not.
        """
        sampled = self.tokens[self.trained]
        if len(ids) != len(sampled) or not np.array_equal(ids, sampled):
            raise InvalidRecord(
                "trained", f"{len(sampled)} sampled tokens became {len(ids)} for {trainer}, or other ones"
            )
