"""`LossWeights`: what each loss term of an optimizer step is multiplied with, so that the loss is a plain sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, I64, Bools
from stepwell.reader._credit.groups import numbered
from stepwell.reader._credit.rollouts import Rollouts

Reduction = Literal["token-mean", "sequence-mean", "trajectory-mean", "dr-grpo"]
SequenceOf = Literal["step", "trajectory"]


@dataclass(frozen=True)
class LossWeights:
    """How the terms of one optimizer step are averaged. Weights are global: over all ranks, packs and micro-batches of the step.

    The loss is the **sum** of weight times term, with no mean anywhere after it. Then merging, packing, the number of
    ranks and the order of steps cannot change the objective. Where a trainer averages, see `gradient_factor`.

    Raises:
        InvalidRecord: An unknown name; `length` missing, not positive, or given where it means nothing.
    """

    reduction: Reduction = "token-mean"
    """With N terms, M sequences and T trajectories (those that have a term), a term weighs

    - `"token-mean"`: 1 / N (DAPO, arXiv 2503.14476);
    - `"sequence-mean"`: 1 / (M · terms of its sequence): the mean over sequences of their token means (GRPO);
    - `"trajectory-mean"`: 1 / (T · terms of its trajectory), whatever `sequence` is;
    - `"dr-grpo"`: 1 / (M · `length`), so that long sequences are not held back (arXiv 2503.20783)."""
    sequence: SequenceOf = "step"
    """What a sequence is, here and for sequence-level ratios (GSPO): one generation, or all of a trajectory. How steps were
    merged says nothing about it."""
    length: int | None = None
    """`"dr-grpo"`: the constant, usually the longest response a sequence may have."""

    def __post_init__(self) -> None:
        for name, choices in (("reduction", get_args(Reduction)), ("sequence", get_args(SequenceOf))):
            if getattr(self, name) not in choices:
                raise InvalidRecord(
                    f"weight.{name}", f"is {getattr(self, name)!r}; must be one of {', '.join(choices)}"
                )
        if (self.length is not None) != (self.reduction == "dr-grpo"):
            raise InvalidRecord(
                "weight.length", "belongs to 'dr-grpo', which needs it: LossWeights('dr-grpo', length=4096)"
            )
        if self.length is not None and self.length < 1:
            raise InvalidRecord("weight.length", f"is {self.length}; must be at least 1")

    @classmethod
    def of(cls, given: Reduction | LossWeights) -> LossWeights:
        """What a reader was given, as an object: the name of a reduction, or a `LossWeights`."""
        return given if isinstance(given, LossWeights) else cls(given)

    def sequences(self, rollouts: Rollouts) -> I64:
        """i64 [S] Which sequence each step belongs to, numbered from 0; for losses that have a ratio per sequence."""
        return np.arange(len(rollouts)) if self.sequence == "step" else numbered(rollouts.trajectory)

    def per_step(self, rollouts: Rollouts, trained: Bools) -> F32:
        """f32 [S] What each loss term of a step weighs, the same for all of a step; 0 for steps that are not `trained` [S].

        `rollouts` must hold *all* steps of the optimizer step, and `response_length` their true number of terms.
        """
        terms = np.where(trained, rollouts.response_length, 0)
        by_trajectory = self.reduction == "trajectory-mean" or self.sequence == "trajectory"
        unit = numbered(rollouts.trajectory) if by_trajectory else np.arange(len(rollouts))
        of_unit = np.zeros(len(rollouts), np.int64)
        np.add.at(of_unit, unit, terms)
        units = int(np.count_nonzero(of_unit))
        if self.reduction == "token-mean":
            divisor = np.full(len(rollouts), float(terms.sum()))
        elif self.reduction == "dr-grpo":
            divisor = np.full(len(rollouts), float(units) * float(self.length or 1))
        else:
            divisor = units * of_unit[unit].astype(np.float64)
        weight: F32 = np.divide(1.0, divisor, out=np.zeros(len(rollouts)), where=terms > 0).astype(np.float32)
        return weight


def gradient_factor(ranks: int, accumulation: int = 1) -> float:
    """What the summed loss of each micro-batch is multiplied with when the trainer averages.

    DistributedDataParallel and FSDP average gradients over the `ranks` of data parallelism; trainers that accumulate gradients
    divide each micro-batch's loss by their number, `accumulation`. A factor of the same size undoes either, and the sum comes out
    again. Tensor, pipeline and context parallelism work on one sample together and do not count. Both are 1 where nothing is averaged.

    Raises:
        InvalidRecord: A number below 1.
    """
    for name, value in (("ranks", ranks), ("accumulation", accumulation)):
        if value < 1:
            raise InvalidRecord(name, f"is {value}; must be at least 1")
    return float(ranks * accumulation)
