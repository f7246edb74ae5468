"""From the fields of each adapter alone, with the trainer's own mean: the loss of the batch, for unequal weights and step counts.

The formulas are the trainers', written down anew; docs/adapters.md says which were compared with their code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stepwell.reader.adapters import (
    rows_of,
    to_areal,
    to_prime_rl,
    to_skyrl,
    to_slime,
    to_tinker,
    to_trl_async,
    to_trl_grpo,
    to_verl,
)

Make = Callable[..., Any]
WEIGHT = [1 / 6, 1 / 6, 1 / 18, 1 / 3, 1 / 12]
"""The mean over trajectories, and unequal numbers of tokens in a trajectory's steps."""


def logprob(ids: Any, positions: Any) -> Any:
    """A policy of its own: depends on the token and on where it is."""
    return -0.15 * (np.asarray(ids) % 7 + 1) - 0.01 * np.asarray(positions)


def ppo(new: Any, old: Any, advantage: Any) -> Any:
    ratio = np.exp(np.asarray(new) - np.asarray(old))
    return -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)


@pytest.fixture(params=["trajectory", "none"])
def step(request: pytest.FixtureRequest, made: Make) -> Any:
    return made(merge_by=request.param, weight=WEIGHT)


def reference(step: Any) -> float:
    total = 0.0
    for pack in step:
        at = pack.occurrence_target
        new = logprob(pack.target_id[at], pack.position_ids[pack.target_position][at])
        total += float((pack.weight * ppo(new, pack.old_logprob, pack.advantage)).sum())
    return total


def padded(fields: dict[str, Any], mask: Any, ids: str, old: str, positions: Any) -> float:
    terms = ppo(logprob(fields[ids], positions), fields[old], fields["advantages"])
    return float((terms * mask).sum() / mask.sum())


def test_verl(step: Any) -> None:
    fields = to_verl(step, pad=0).tensors
    positions = fields["position_ids"][:, fields["prompts"].shape[1] :]
    loss = padded(fields, fields["response_mask"], "responses", "old_log_probs", positions)
    assert loss == pytest.approx(reference(step), rel=1e-5)


def test_trl_grpo(step: Any) -> None:
    fields = to_trl_grpo(step, pad=0)
    positions = fields["prompt_mask"].sum(1)[:, None] + np.arange(fields["completion_ids"].shape[1])
    mask = fields["completion_mask"] * fields["tool_mask"]
    assert padded(fields, mask, "completion_ids", "old_per_token_logps", positions) == pytest.approx(
        reference(step), rel=1e-5
    )


def test_slime(made: Make) -> None:
    step = made(merge_by="none", weight=WEIGHT)
    means = []
    for one in to_slime(step):
        ids = np.array(one["tokens"])
        new = logprob(ids, np.arange(len(ids)))[-one["response_length"] :]
        terms = ppo(new, one["rollout_log_probs"], one["reward"])
        means.append((terms * one["loss_mask"]).sum() / sum(one["loss_mask"]))
    assert np.mean(means) == pytest.approx(reference(step), rel=1e-5)


def test_skyrl(step: Any) -> None:
    output, total, count = to_skyrl(step), 0.0, 0
    names = ("prompt_token_ids", "response_ids", "rewards", "loss_masks", "rollout_logprobs")
    for prompt, ids, due, mask, old in zip(*(output[name] for name in names), strict=True):
        new = logprob(ids, len(prompt) + np.arange(len(ids)))
        total += float((ppo(new, old, np.array(due)) * mask).sum())
        count += sum(mask)
    assert total / count == pytest.approx(reference(step), rel=1e-5)


def test_prime_rl(step: Any) -> None:
    samples = to_prime_rl(step, env_name="e", temperature=1.0)
    total = 0.0
    for one in samples:
        new = logprob(one["token_ids"], np.arange(len(one["mask"])))
        total += float((ppo(new, one["logprobs"], np.array(one["advantages"])) * one["mask"]).sum())
    assert total / sum(sum(one["mask"]) for one in samples) == pytest.approx(reference(step), rel=1e-5)


def test_tinker(step: Any) -> None:
    total = 0.0
    for one in to_tinker(step):
        new = logprob(one["target_tokens"], 1 + np.arange(len(one["target_tokens"])))
        total += float(ppo(new, one["logprobs"], one["advantages"]).sum())
    assert total == pytest.approx(reference(step), rel=1e-5)


@pytest.mark.parametrize("trainer", ["areal", "trl"])
def test_one_advantage_per_row_spread_over_its_terms(made: Make, trainer: str) -> None:
    step = made(merge_by="none", weight=WEIGHT)
    total, count = 0.0, 0
    rows = to_areal(step) if trainer == "areal" else to_trl_async(step)
    ids, mask, old, due = (
        ("input_ids", "loss_mask", "logprobs", "rewards")
        if trainer == "areal"
        else ("input_ids", "completion_mask", "old_log_probs", "advantage")
    )
    for one in rows:
        new = logprob(one[ids], np.arange(one[ids].size))
        total += float((ppo(new, one[old], one[due]) * one[mask]).sum())
        count += int(one[mask].sum())
    assert total / count == pytest.approx(reference(step), rel=1e-5)


def test_a_trainer_that_compares_rows_gets_it_wrong_and_ours_is_right(made: Make) -> None:
    """Rewards 1 and 0, three steps and one. Over rows the mean is 0.75, and a trajectory counts as often as it has steps."""
    step = made(merge_by="none")
    rows = rows_of(step)
    reward = np.array([{"long": 1.0, "short": 0.0, "other": 2.0}[name] for name in rows.trajectories])
    uid = np.array(rows.groups)
    over_rows = reward - np.array([reward[uid == group].mean() for group in uid])
    ours = rows.per_row("advantage", rows.due("token-mean"))
    assert over_rows.tolist() == [0.25, 0.25, 0.25, -0.75, 0.0]
    assert ours[:4].tolist() == pytest.approx([0.5, 0.5, 0.5, -0.5])
    fields = to_verl(step, pad=0).tensors
    positions = fields["position_ids"][:, fields["prompts"].shape[1] :]
    handed = padded(fields, fields["response_mask"], "responses", "old_log_probs", positions)
    recomputed = {**fields, "advantages": over_rows[:, None]}
    wrong = padded(recomputed, fields["response_mask"], "responses", "old_log_probs", positions)
    assert handed == pytest.approx(reference(step), rel=1e-5)
    assert abs(wrong - reference(step)) > 0.1 * abs(reference(step))
