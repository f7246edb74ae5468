"""prime-rl: the fields of a `TrainingSample`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F64
from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._rows import Mean, Rows


def to_prime_rl(
    batch: Batch, *, env_name: str, temperature: float | None = None, mean: Mean = "token-mean"
) -> list[dict[str, Any]]:
    """One dict per row; `TrainingSample(**one)` makes prime-rl's type of it. All lists have one value per token.

    `advantages` are ours with our weights (see `Rows.due`), 0 where nothing is trained. Hand the samples to the packer: the orchestrator's
    advantage step, which compares rollouts by itself, comes before that, and is left out.

    `temperatures` are those that the steps were sampled at (`step_details`), 1.0 between them; `temperature` says one for all.

    Raises:
        InvalidRecord: a step's temperature is not known; advantages or old logprobs are absent.
    """
    rows = rows_of(batch)
    due, old, heat = rows.due(mean), rows.need_old_logprob(), _temperatures(rows, temperature)
    samples = [
        {
            "token_ids": rows.tokens[at].tolist(),
            "mask": rows.trained[at].tolist(),
            "logprobs": old[at].tolist(),
            "temperatures": heat[at].tolist(),
            "env_name": env_name,
            "advantages": due[at].tolist(),
        }
        for at in map(rows.of, range(len(rows)))
    ]
    valid = [np.array(one["token_ids"])[np.array(one["mask"], bool)] for one in samples]
    rows.check_valid(np.concatenate([*valid, []]), "prime-rl")
    return samples


def _temperatures(rows: Rows, temperature: float | None) -> F64:
    """[total]"""
    if temperature is not None:
        return np.full(len(rows.tokens), temperature)
    steps = rows.step[rows.trained]
    known = rows.column("temperature", np.unique(steps))
    if None in known:
        name = rows.column("step_id", np.unique(steps))[known.index(None)]
        raise InvalidRecord("temperatures", f"step {name} has none on record: say one for all (`temperature`)")
    heat = np.ones(len(rows.tokens))
    heat[rows.trained] = np.array(known, float)[np.searchsorted(np.unique(steps), steps)]
    return heat
