"""AReaL: one dict of arrays per sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import Array
from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._rows import Mean

CLIP = 20.0
"""AReaL's default `reward_clip`."""


def to_areal(batch: Batch, *, mean: Mean = "token-mean", clip: float = CLIP) -> list[dict[str, Array]]:
    """One dict per row, arrays [1, L]: input_ids, loss_mask i64, logprobs f32, versions i64 (-1: not sampled), attention_mask bool;
    rewards f32 [1]. Labels are not shifted: AReaL does that.

    `rewards` is our advantage with our weights (see `Rows.due`), one number per row. AReaL spreads it over the row's trained tokens as it
    is with `discount=1`, `gae_lambda=1`, `kl_ctl=0`, `reward_bias=0`, `reward_scaling=1`, and `reward_norm` and `adv_norm` unset (both
    compare rows, and count a trajectory once for each of them). `clip` is its `reward_clip`.

    Raises:
        InvalidRecord: steps of a row differ in advantage; one is beyond `clip`; a row does not end with a trained token, and AReaL
            would lose its reward; advantages or old logprobs are absent.
    """
    rows = rows_of(batch)
    reward, old = rows.per_row("advantage", rows.due(mean)), rows.need_old_logprob()
    if len(reward) and float(np.abs(reward).max()) > clip:
        raise InvalidRecord(
            "rewards", f"reach {np.abs(reward).max():g}, and AReaL cuts at {clip:g}: raise its reward_clip, and `clip`"
        )
    versions = _versions(
        rows.step, rows.steps["policy_version"] if "policy_version" in rows.steps.column_names else None
    )
    found: list[dict[str, Array]] = []
    for row in range(len(rows)):
        at = rows.of(row)
        if not rows.trained[at.stop - 1]:
            raise InvalidRecord(
                "loss_mask", f"ends with a token that is not trained, in trajectory {rows.trajectories[row]}"
            )
        found.append(
            {
                "input_ids": rows.tokens[None, at].astype(np.int64),
                "loss_mask": rows.trained[None, at].astype(np.int64),
                "logprobs": old[None, at].copy(),
                "versions": versions[None, at].copy(),
                "attention_mask": np.ones((1, at.stop - at.start), np.bool_),
                "rewards": reward[row : row + 1].copy(),
            }
        )
    valid = [one["input_ids"][one["loss_mask"] == 1] for one in found]
    rows.check_valid(np.concatenate([*valid, []]), "AReaL")
    return found


def _versions(step: Array, column: Any) -> Array:
    """[total] The policy's version of each sampled token; 0 where nobody said one."""
    if column is None:
        return np.where(step >= 0, 0, -1).astype(np.int64)
    known: Array = column.fill_null(0).to_numpy()
    return np.where(step >= 0, known[np.maximum(step, 0)], -1).astype(np.int64)
