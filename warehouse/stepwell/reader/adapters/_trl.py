"""TRL: what its GRPO, AsyncGRPO and SFT trainers take of token sequences. Rows of messages are in `_told`."""

from __future__ import annotations

from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import Array, ranges
from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._rows import Mean, Rows
from stepwell.reader.adapters._width import Block


def to_trl_grpo(batch: Batch, *, pad: int, mean: Mean = "token-mean") -> dict[str, Array]:
    """The inputs of `GRPOTrainer`'s loss, in place of what it generates and scores itself.

    prompt_ids and prompt_mask i64 [B, P], padded on the left; completion_ids, completion_mask (what is no padding) and tool_mask (1 where
    the policy sampled) i64 [B, R], padded on the right; old_per_token_logps, sampling_per_token_logps and advantages f32 [B, R];
    num_items_in_batch i64 [], the number of loss terms.

    `advantages` are ours with our weights (see `Rows.due`). `GRPOTrainer` always compares rewards over `num_generations` rows, and that
    cannot be switched off; so hand these over behind it, as tensors, by overriding `_prepare_inputs` (docs/adapters.md). `mean`
    is `"token-mean"` for the loss types dapo and cispo, `"row-mean"` for grpo, each with all rows in one micro-batch.

    Raises:
        InvalidRecord: advantages or old logprobs are absent; the masks do not hold the tokens sampled.
    """
    rows = rows_of(batch)
    due, old = rows.due(mean), rows.need_old_logprob()
    before, after = rows.prompt_lengths, rows.lengths - rows.prompt_lengths
    prompt_at, response_at = ranges(rows.offsets[:-1], before), ranges(rows.offsets[:-1] + before, after)
    prompts = Block(before, None, name="prompt", right=True)
    responses = Block(after, None, name="response", right=False)
    found = {
        "prompt_ids": prompts.filled(rows.tokens[prompt_at], pad, np.int64),
        "prompt_mask": prompts.filled(np.ones(len(prompt_at), np.int64), 0, np.int64),
        "completion_ids": responses.filled(rows.tokens[response_at], pad, np.int64),
        "completion_mask": responses.filled(np.ones(len(response_at), np.int64), 0, np.int64),
        "tool_mask": responses.filled(rows.trained[response_at], 0, np.int64),
        "num_items_in_batch": np.array(int(rows.terms.sum()), np.int64),
    }
    for name, values in (("old_per_token_logps", old), ("sampling_per_token_logps", old), ("advantages", due)):
        found[name] = responses.filled(values[response_at], 0, np.float32)
    valid = (found["completion_mask"] * found["tool_mask"]) == 1
    rows.check_valid(found["completion_ids"][valid], "TRL")
    return found


def to_trl_rollout(batch: Batch) -> dict[str, list[Any]]:
    """What a `rollout_func` of `GRPOTrainer` returns: prompt_ids, completion_ids, logprobs, env_mask (1: the policy sampled it).

    `advantage` and `weight`, one per completion token, go to reward functions as they are. They are *not* what `GRPOTrainer` trains
    with: it compares what its reward functions return over `num_generations` rows. With several rows per trajectory that is
    wrong, so they are refused here; use `to_trl_grpo`, which hands over the advantages.

    Raises:
        InvalidRecord: a trajectory has several rows; old logprobs are absent.
    """
    rows = rows_of(batch)
    old = rows.need_old_logprob()
    if not all(rows.final):
        name = rows.trajectories[rows.final.index(False)]
        raise InvalidRecord("merge", f"trajectory {name} has several rows, and TRL would compare each: use to_trl_grpo")
    responses = [rows.response(row) for row in range(len(rows))]
    found: dict[str, list[Any]] = {
        "prompt_ids": [rows.tokens[rows.of(row).start : at.start].tolist() for row, at in enumerate(responses)],
        "completion_ids": [rows.tokens[at].tolist() for at in responses],
        "logprobs": [old[at].tolist() for at in responses],
        "env_mask": [rows.trained[at].astype(int).tolist() for at in responses],
        "weight": [rows.weight[at].tolist() for at in responses],
    }
    if rows.advantage is not None:
        found["advantage"] = [rows.advantage[at].tolist() for at in responses]
    pairs = zip(found["completion_ids"], found["env_mask"], strict=True)
    _check(rows, [np.array(ids)[np.array(mask, bool)] for ids, mask in pairs])
    return found


def to_trl_async(batch: Batch, *, mean: Mean = "token-mean") -> list[dict[str, Any]]:
    """One dict per row, the fields of AsyncGRPO's `RolloutSample`: input_ids i64, completion_mask i64 and old_log_probs f32, all [L];
    advantage, one number per row; model_version; group_id, a number; and prompt, completion, metrics, which are for logs, empty.

    `AsyncGRPOTrainer` trains with the advantage as it is; put the samples into the queue of your own `rollout_worker`.
    `model_version` is the policy's of the last step (`step_details`); 0 where nobody said one.

    Raises:
        InvalidRecord: steps of a row differ in advantage; advantages or old logprobs are absent.
    """
    rows = rows_of(batch)
    advantage, old = rows.per_row("advantage", rows.due(mean)), rows.need_old_logprob()
    known = "policy_version" in rows.steps.column_names
    versions: list[Any] = rows.column("policy_version", rows.last_step) if known else [0] * len(rows)
    groups = {name: number for number, name in enumerate(dict.fromkeys(rows.groups))}
    samples: list[dict[str, Any]] = [
        {
            "prompt": [],
            "completion": [],
            "input_ids": rows.tokens[rows.of(row)].astype(np.int64),
            "completion_mask": rows.trained[rows.of(row)].astype(np.int64),
            "old_log_probs": old[rows.of(row)].copy(),
            "advantage": float(advantage[row]),
            "model_version": int(versions[row] or 0),
            "group_id": groups[rows.groups[row]],
            "metrics": {},
        }
        for row in range(len(rows))
    ]
    _check(rows, [one["input_ids"][one["completion_mask"] == 1] for one in samples])
    return samples


def to_trl_sft(batch: Batch) -> list[dict[str, list[int]]]:
    """One dict per row for `SFTTrainer`: input_ids, and labels with -100 where nothing is trained. Read with `advantage=None`.

    Weights are not handed over: `SFTTrainer` takes the mean over all labels, which is `loss="token-mean"`.

    Raises:
        InvalidRecord: the weights of the batch are others.
    """
    rows = rows_of(batch)
    weights = rows.weight[rows.trained]
    if len(weights) and not np.allclose(weights, weights[0], rtol=1e-6, atol=0):
        raise InvalidRecord("loss", "is no token mean, and SFTTrainer computes one: read with loss='token-mean'")
    labels = np.where(rows.trained, rows.tokens, -100)
    _check(rows, [labels[labels != -100]])
    places = [rows.of(row) for row in range(len(rows))]
    return [{"input_ids": rows.tokens[at].tolist(), "labels": labels[at].tolist()} for at in places]


def _check(rows: Rows, valid: list[Array]) -> None:
    rows.check_valid(np.concatenate([*valid, np.zeros(0, np.int64)]), "TRL")
