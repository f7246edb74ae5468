"""Prompts that do not go on where the step before ended, and what becomes of the tokens sampled there.

`fork` keeps both as they are: a tree branches, and nothing is lost. `realign` gives up the end of an answer from where the following
prompt repeats it differently, so that a trajectory stays one line; it never trains a token that was not sampled, and where nothing of
the answer is repeated, as after a compaction, it forks. `drop` leaves out the step that drifted.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from stepwell.reader._arrays import I32, I64, Bools
from stepwell.reader._credit import trees
from stepwell.reader._select.steps import Steps

OnDrift = Literal["fork", "realign", "drop"]
CHOICES = ("fork", "realign", "drop")
UNKNOWN = -1


def shared_with_parent(steps: Steps) -> I64:
    """i64 [N] Tokens of each step that its parent's prompt and response begin with, as recorded; `UNKNOWN` where nothing was compared."""
    parent = steps.parent
    exact = np.where(parent >= 0, steps.lengths[parent], UNKNOWN)
    compared = np.where(steps.drift.codes >= 0, steps.drift_at, exact)
    there = (parent >= 0) & (steps.prompt_length >= 0) & (steps.prompt_length[parent] >= 0)
    found: I64 = np.where(there, compared, UNKNOWN).astype(np.int64)
    return found


def kept_by_realigning(steps: Steps, trained: Bools) -> I32:
    """i32 [N] Response tokens of each step that the steps after it still agree with; all of them where nothing comes after.

    Of several branches the one that keeps most counts: as long as one goes on exactly, nothing needs to be given up.
    """
    lengths, shared = steps.lengths, shared_with_parent(steps)
    linked = trained & (steps.parent >= 0) & trained[steps.parent] & (shared > steps.prompt_length[steps.parent])
    parent = np.where(linked, steps.parent, -1)
    agreed = np.full(len(steps), -1, np.int64)
    depth = trees.depths(parent)
    order = np.argsort(depth, kind="stable")
    borders = np.cumsum(np.bincount(depth, minlength=1))
    for level in range(len(borders) - 1, 0, -1):
        rows = order[borders[level - 1] : borders[level]]
        end = np.where(agreed[rows] >= 0, agreed[rows], lengths[rows])
        np.maximum.at(agreed, parent[rows], np.minimum(shared[rows], end))
    kept = np.where(agreed >= 0, agreed - steps.prompt_length, steps.response_length)
    return np.clip(kept, 0, np.maximum(steps.response_length, 0)).astype(np.int32)


def causes(steps: Steps, rows: Bools) -> dict[str, int]:
    """How many of these steps drifted, by cause."""
    codes = steps.drift.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(steps.drift.names))
    return {name: int(count) for name, count in zip(steps.drift.names, counts, strict=True) if count}
