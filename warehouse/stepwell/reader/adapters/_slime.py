"""slime: the fields of a `Sample`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._rows import Mean, Rows

_STATUS = {"ok": "completed", "truncated": "truncated", "error": "failed"}


def to_slime(batch: Batch, *, mean: Mean = "row-mean") -> list[dict[str, Any]]:
    """One dict per row; `Sample.from_dict(one)` makes slime's type of it.

    `reward` is our advantage with our weights (see `Rows.due`), one number per row. So that slime hands it on as it is, run it with
    `--advantage-estimator grpo --disable-rewards-normalization`; otherwise it compares rows with each other, and counts a trajectory once
    for each of them. `mean` is `"row-mean"` by slime's default, `"token-mean"` with `--calculate-per-token-loss`. `loss_mask` and
    `rollout_log_probs` have one value per token of the response (`--use-rollout-logprobs` makes them the old logprobs).

    `group_index` numbers prompt groups, `rollout_id` trajectories (rows of one have the same), `index` rows. With `step_details`,
    `weight_versions` are the policy's of each step, and `status` is the last step's; without, they are empty and completed.

    Raises:
        InvalidRecord: steps of a row differ in advantage; advantages or old logprobs are absent.
    """
    rows = rows_of(batch)
    reward, old = rows.per_row("advantage", rows.due(mean)), rows.need_old_logprob()
    groups, rollouts = _numbered(rows.groups), _numbered(rows.trajectories)
    samples: list[dict[str, Any]] = []
    for row in range(len(rows)):
        after = rows.response(row)
        steps = np.unique(rows.step[after][rows.trained[after]])
        samples.append(
            {
                "group_index": groups[row],
                "index": row,
                "rollout_id": rollouts[row],
                "tokens": rows.tokens[rows.of(row)].tolist(),
                "response_length": after.stop - after.start,
                "loss_mask": rows.trained[after].astype(int).tolist(),
                "rollout_log_probs": old[after].tolist(),
                "reward": float(reward[row]),
                "remove_sample": False,
                "metadata": {"trajectory_id": rows.trajectories[row], "step_ids": rows.column("step_id", steps)},
                **_told(rows, steps),
            }
        )
    _check(rows, samples)
    return samples


def _told(rows: Rows, steps: np.ndarray) -> dict[str, Any]:
    if "status" not in rows.steps.column_names:
        return {"status": "completed", "weight_versions": []}
    versions = rows.column("policy_version", steps)
    status = str(rows.column("status", steps)[-1])
    return {
        "status": _STATUS.get(status, "aborted"),
        "weight_versions": [str(version) for version in versions if version is not None],
    }


def _numbered(names: list[str]) -> list[int]:
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return [numbers[name] for name in names]


def _check(rows: Rows, samples: list[dict[str, Any]]) -> None:
    found = [np.array(one["tokens"][-one["response_length"] :])[np.array(one["loss_mask"], bool)] for one in samples]
    rows.check_valid(np.concatenate([*found, []]), "slime")
