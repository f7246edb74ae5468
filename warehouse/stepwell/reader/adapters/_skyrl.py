"""SkyRL: a `GeneratorOutput`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._rows import Mean


@dataclass(frozen=True, slots=True)
class SkyRLTrajectory:
    """What SkyRL calls a `TrajectoryID`, with the same attributes: a prompt, and which of its rollouts."""

    instance_id: str
    repetition_id: int

    def to_string(self) -> str:
        return f"{self.instance_id}_{self.repetition_id}"


def to_skyrl(batch: Batch, *, mean: Mean = "token-mean") -> dict[str, Any]:
    """Lists of B rows; those of a trajectory follow each other, and `is_last_step` ends them.

    `rewards` are per token of the response: our advantages with our weights (see `Rows.due`), 0 where nothing is trained; `mean` is SkyRL's
    `loss_reduction`. So that they reach the loss as they are, register an estimator that hands them on
    (`AdvantageEstimatorRegistry.register("stepwell", …)`, returning `token_level_rewards` twice), choose it
    (`trainer.algorithm.advantage_estimator=stepwell`), and leave `trainer.algorithm.advantage_batch_normalize` and
    `use_kl_in_reward` off. SkyRL's own estimators would compare rows; those for step-wise training compare last steps only, and know
    nothing of trajectories that were left out.

    `stop_reasons` are there with `step_details`, None without.

    Raises:
        InvalidRecord: advantages or old logprobs are absent.
    """
    rows = rows_of(batch)
    due, old = rows.due(mean), rows.need_old_logprob()
    responses = [rows.response(row) for row in range(len(rows))]
    told = "finish_reason" in rows.steps.column_names
    output: dict[str, Any] = {
        "prompt_token_ids": [
            rows.tokens[rows.of(row)][:length].tolist() for row, length in enumerate(rows.prompt_lengths.tolist())
        ],
        "response_ids": [rows.tokens[at].tolist() for at in responses],
        "rewards": [due[at].tolist() for at in responses],
        "loss_masks": [rows.trained[at].astype(int).tolist() for at in responses],
        "stop_reasons": [str(why or "stop") for why in rows.column("finish_reason", rows.last_step)] if told else None,
        "rollout_metrics": None,
        "rollout_logprobs": [old[at].tolist() for at in responses],
        "trajectory_ids": _trajectories(rows.groups, rows.trajectories),
        "is_last_step": rows.final,
        "env_metrics": [{} for _ in responses],
    }
    pairs = zip(output["response_ids"], output["loss_masks"], strict=True)
    found = [np.array(ids)[np.array(mask, bool)] for ids, mask in pairs]
    rows.check_valid(np.concatenate([*found, []]), "SkyRL")
    return output


def _trajectories(groups: list[str], trajectories: list[str]) -> list[SkyRLTrajectory]:
    members: dict[str, dict[str, int]] = {}
    found = []
    for group, name in zip(groups, trajectories, strict=True):
        numbers = members.setdefault(group, {})
        found.append(SkyRLTrajectory(group, numbers.setdefault(name, len(numbers))))
    return found
