"""A frozen dataset as merged batches, one per prompt group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader._advantages import grpo, spread_to_steps
from stepwell.reader._arrays import F32
from stepwell.reader._batch import TreeBatch
from stepwell.reader._merge import merge
from stepwell.reader._sequences import Sequences
from stepwell.reader._usable import require_comparable, require_old_logprobs, require_one, require_tokens, trained_only

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """One prompt group. `step_ids[batch.step_index[row]]` is the step of a row of the batch."""

    group_id: str | None
    step_ids: tuple[str, ...]
    batch: TreeBatch


def read_groups(
    warehouse: Warehouse,
    dataset: str,
    version: int | None = None,
    *,
    advantage: Literal["grpo", "none"] = "grpo",
    include_untrainable: bool = False,
    verify: bool = True,
    allow_incomplete: bool = False,
) -> Iterator[GroupBatch]:
    """The steps of a dataset version (the newest by default), merged group by group in the dataset's order.

    `advantage="grpo"` compares the trajectories of a group by the `trajectory_reward` they had when the dataset was made: *all* that had
    one, also those of which nothing was selected, so that a filter does not move the baseline. `"none"` leaves advantages absent.
    Steps that are not trainable, and those whose ids a tokenizer made up from text, are left out unless `include_untrainable`.
    Weights are token means over the whole dataset, so the batches' losses add up to the dataset's. `verify` checks what is read
    against the hashes that were frozen; `allow_incomplete` also takes a dataset of which something was forgotten. Everything is checked
    before the first batch is given out.

    Raises:
        StoreError: there is no such dataset, or what is stored is not what was frozen.
        InvalidRecord: a step without token ids or with logprobs of another distribution; a group that mixes prompts, models,
            tokenizers or policies; a trajectory without group or reward to compare (`"grpo"`).
    """
    read = warehouse.datasets.read(dataset, version, verify=verify, allow_incomplete=allow_incomplete)
    steps = trained_only(read, include_untrainable=include_untrainable)
    require_tokens(steps)
    groups = [steps.slice(rows.start, len(rows)) for rows in _consecutive(steps["group_id"])]
    peers = warehouse.datasets.peers(dataset, version) if advantage == "grpo" else None
    advantages = [_checked(group, peers) for group in groups]
    trained = max(1, len(steps["response_ids"].combine_chunks().flatten()))
    return (_batch(group, values, trained) for group, values in zip(groups, advantages, strict=True))


def _checked(group: pa.Table, peers: pa.Table | None) -> F32 | None:
    """Nothing in the group speaks against training on it; its advantages per step, if they are asked for."""
    require_one(group, "fingerprint", "ids of different models or tokenizers cannot be merged")
    require_one(group, "policy", "an RL batch is of one policy")
    require_old_logprobs(group)
    if peers is None:
        return None
    require_comparable(group)
    return _grpo(group, peers)


def _batch(group: pa.Table, advantage: F32 | None, trained: int) -> GroupBatch:
    sequences = Sequences.from_arrow(group["prompt_ids"], group["response_ids"], group["logprobs"])
    merged = merge(sequences, advantage=advantage, weight=np.full(len(sequences), 1 / trained, np.float32))
    return GroupBatch(group["group_id"][0].as_py(), tuple(group["step_id"].to_pylist()), merged)


def _consecutive(groups: pa.ChunkedArray) -> Iterator[range]:
    """The rows of each group: a dataset is ordered by group. Steps without a group are one of their own."""
    ends = groups.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    borders = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(ends)]
    for start, stop in pairwise(borders):
        if stop > start:
            yield range(start, stop)


def _grpo(group: pa.Table, peers: pa.Table) -> F32:
    """Per step: the advantage of its trajectory among all rewarded trajectories of the group."""
    coded = group["trajectory_id"].combine_chunks().dictionary_encode()
    index = coded.indices.to_numpy().astype(np.int64)
    first = np.unique(index, return_index=True)[1]
    rewards = group["trajectory_reward"].take(pa.array(first)).to_numpy().astype(np.float64)
    if np.isnan(rewards).any():
        lacking = coded.dictionary.take(pa.array(np.flatnonzero(np.isnan(rewards)))).to_pylist()
        raise InvalidRecord(
            "trajectory_reward", f"no reward for {lacking}: give one, select others, or ask for advantage='none'"
        )
    name, rows = (
        group["group_id"][0].as_py(),
        zip(
            peers["group_id"].to_pylist(),
            peers["trajectory_id"].to_pylist(),
            peers["trajectory_reward"].to_pylist(),
            strict=True,
        ),
    )
    here = set(coded.dictionary.to_pylist())
    others = [reward for peer_group, trajectory, reward in rows if peer_group == name and trajectory not in here]
    everyone = np.concatenate([rewards, np.asarray(others, np.float64)])
    return spread_to_steps(grpo(everyone, np.zeros(len(everyone), np.int64)), index)
