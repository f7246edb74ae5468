"""`assign`: from rollouts and settings to the advantage and the weight of every step that is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, F64, Bools
from stepwell.reader._credit.advantage import Advantage, Estimator
from stepwell.reader._credit.estimators import estimate
from stepwell.reader._credit.rollouts import Rollouts
from stepwell.reader._credit.weights import LossWeights, Reduction


@dataclass(frozen=True, eq=False)
class Credit:
    """What the S steps of one optimizer step are due."""

    trained: Bools
    """[S] Steps with loss terms: selected, and not left out."""
    weight: F32
    """[S] Of each loss term of the step, global normaliser included; 0 where it is not trained."""
    advantage: F32 | None
    """[S] Finite where the step is trained, NaN elsewhere. None when none were asked for."""
    left_out: Mapping[str, int]
    """How many selected steps are not trained on, by reason."""
    level_groups: int
    """Prompt groups with trained steps whose advantages are all 0: alone, or with equal rewards. They weigh, and teach nothing."""


def assign(
    rollouts: Rollouts,
    advantage: str | Estimator | Advantage | None = "grpo",
    weight: Reduction | LossWeights = "token-mean",
) -> Credit:
    """Advantages and loss weights of one optimizer step.

    Args:
        rollouts: All steps of all prompt groups of the optimizer step, on every rank together.
        advantage: An estimator's name, a callable, or an `Advantage` with its settings. None or `"none"`: no advantages.
        weight: The name of a reduction, or `LossWeights` with its settings.

    Raises:
        InvalidRecord: A selected step has no advantage and `missing` is `"raise"`; an advantage does not fit float32; or as
            `estimate` and the settings say.
    """
    options, weights = Advantage.of(advantage), LossWeights.of(weight)
    cut = rollouts.was_cut[rollouts.trajectory] & (options.truncated == "mask")
    candidates = rollouts.selected & ~cut
    left_out = {"truncated": int(np.count_nonzero(rollouts.selected & cut))}
    if options.kind == "none":
        return _credit(rollouts, weights, candidates, None, left_out)
    found = estimate(rollouts, options, candidates)
    trained = candidates & ~np.isnan(found)
    for reason, rows in _reasons(rollouts, options, candidates & ~trained).items():
        if rows.any() and options.missing == "raise":
            raise _refusal(rollouts, reason, rows)
        left_out[reason] = int(np.count_nonzero(rows))
    return _credit(rollouts, weights, trained, _fitting(rollouts, found, trained), left_out)


def _credit(
    rollouts: Rollouts, weights: LossWeights, trained: Bools, values: F32 | None, left_out: dict[str, int]
) -> Credit:
    level = 0
    if values is not None:
        group = rollouts.group[rollouts.trajectory]
        learnt = group[trained & (values != 0)]
        level = len(np.setdiff1d(group[trained & (group >= 0)], learnt))
    counted = {reason: count for reason, count in left_out.items() if count}
    return Credit(trained, weights.per_step(rollouts, trained), values, counted, level)


def _fitting(rollouts: Rollouts, found: F64, trained: Bools) -> F32:
    with np.errstate(over="ignore"):
        values = np.where(trained, found, np.nan).astype(np.float32)
    wrong = trained & ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        where = f"step row {row} of {rollouts.name(int(rollouts.trajectory[row]))}"
        raise InvalidRecord("advantage", f"{where} has {found[row]}, which is no finite float32; scale the rewards")
    return values


def _reasons(rollouts: Rollouts, options: Advantage, without: Bools) -> dict[str, Bools]:
    """Why steps have no advantage, each step under the first reason that holds."""
    ended = rollouts.complete[rollouts.trajectory]
    if options.kind == "callable":
        return {"no advantage": without}
    alone = (rollouts.group[rollouts.trajectory] < 0) & options.grouped
    return {"incomplete": without & ~ended, "no group": without & ended & alone, "no reward": without & ended & ~alone}


_REMEDIES = {
    "incomplete": ("is not complete", "wait for its end, "),
    "no group": ("has no prompt group to be compared in", "give it one, "),
    "no reward": ("lacks a reward", "give it one, say what an absent one counts as (`absent`), "),
    "no advantage": ("was given NaN by the callable", ""),
}


def _refusal(rollouts: Rollouts, reason: str, rows: Bools) -> InvalidRecord:
    first = rollouts.name(int(rollouts.trajectory[rows.argmax()]))
    count = len(np.unique(rollouts.trajectory[rows]))
    what, remedy = _REMEDIES[reason]
    others = f" (and {count - 1} more)" if count > 1 else ""
    return InvalidRecord(
        "advantage", f"{first}{others} {what}: {remedy}leave it out (`missing='skip'`), or select others"
    )
