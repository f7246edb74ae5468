"""verl: the fields of a `DataProto`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import Array, ranges
from stepwell.reader.adapters._lines import Batch, rows_of
from stepwell.reader.adapters._needs import needed
from stepwell.reader.adapters._rows import Mean, Rows
from stepwell.reader.adapters._width import Block


@dataclass(frozen=True, eq=False)
class VerlBatch:
    """What `DataProto.from_dict` takes."""

    tensors: dict[str, Array]
    non_tensors: dict[str, Array]
    """Object arrays [B]."""

    def data_proto(self) -> Any:
        """A `verl.DataProto`. Raises MissingExtra where verl or PyTorch is not installed."""
        torch, verl = needed("torch", "tensors"), needed("verl", "a DataProto")
        tensors = {name: torch.from_numpy(values) for name, values in self.tensors.items()}
        return verl.DataProto.from_dict(tensors=tensors, non_tensors=self.non_tensors)


def to_verl(
    batch: Batch,
    *,
    pad: int,
    prompt_width: int | None = None,
    response_width: int | None = None,
    mean: Mean = "token-mean",
) -> VerlBatch:
    """Prompts padded on the left, responses on the right; between a row's sampled tokens `response_mask` is 0.

    `advantages` and `returns` f32 [B, R] are ours, with our weights (see `Rows.due`); `mean` is verl's `loss_agg_mode`. `rm_scores` and
    `token_level_scores` hold the same numbers, so that they survive the trainer's own advantage step: register an estimator that hands them
    on, and choose it (`algorithm.adv_estimator=stepwell`, `algorithm.use_kl_in_reward=False`):

        @register_adv_est("stepwell")
        def stepwell(token_level_rewards, response_mask, **kwargs):
            return token_level_rewards, token_level_rewards

    Every estimator of verl's own compares rows, and counts a trajectory once for each of them. `rollout_log_probs` are the engine's;
    `old_log_probs` are the same, for a trainer that does not compute them anew.

    Args:
        pad: the tokenizer's padding id.
        prompt_width, response_width: by default those of the longest.

    Raises:
        InvalidRecord: a row is wider; advantages or old logprobs are absent; the mask does not hold the tokens sampled.
    """
    rows = rows_of(batch)
    due, old = rows.due(mean), rows.need_old_logprob()
    before, after = rows.prompt_lengths, rows.lengths - rows.prompt_lengths
    prompt_at, response_at = ranges(rows.offsets[:-1], before), ranges(rows.offsets[:-1] + before, after)
    prompts = Block(before, prompt_width, name="prompt_width", right=True)
    responses = Block(after, response_width, name="response_width", right=False)
    tensors = _tokens(rows, (prompts, prompt_at), (responses, response_at), pad)
    tensors["response_mask"] = responses.filled(rows.trained[response_at], 0, np.int64)
    for name, values in (("rollout_log_probs", old), ("old_log_probs", old), ("advantages", due), ("returns", due)):
        tensors[name] = responses.filled(values[response_at], 0, np.float32)
    tensors["token_level_scores"] = tensors["rm_scores"] = tensors["advantages"].copy()
    rows.check_valid(tensors["responses"][tensors["response_mask"] == 1], "verl")
    return VerlBatch(tensors, _names(rows))


def _tokens(rows: Rows, prompt: tuple[Block, Array], response: tuple[Block, Array], pad: int) -> dict[str, Array]:
    if pad < 0:
        raise InvalidRecord("pad", f"is {pad}; give the tokenizer's padding id")
    (prompts, before), (responses, after) = prompt, response
    found = {
        "prompts": prompts.filled(rows.tokens[before], pad, np.int64),
        "responses": responses.filled(rows.tokens[after], pad, np.int64),
    }
    found["input_ids"] = np.concatenate([found["prompts"], found["responses"]], axis=1)
    there = [block.filled(np.ones(len(at), np.int64), 0, np.int64) for block, at in (prompt, response)]
    found["attention_mask"] = np.concatenate(there, axis=1)
    found["position_ids"] = np.maximum(np.cumsum(found["attention_mask"], axis=1) - 1, 0)
    return found


def _names(rows: Rows) -> dict[str, Array]:
    turns = [len(np.unique(steps[steps >= 0])) for steps in (rows.step[rows.of(row)] for row in range(len(rows)))]
    columns: dict[str, list[Any]] = {
        "uid": rows.groups,
        "trajectory_id": rows.trajectories,
        "index": list(range(len(rows))),
        "__num_turns__": turns,
    }
    found = {name: np.empty(len(rows), object) for name in columns}
    for name, values in columns.items():
        found[name][:] = values
    return found
