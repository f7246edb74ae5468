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
    verify: bool = True,
) -> Iterator[GroupBatch]:
    """The steps of a dataset version (the newest by default), merged group by group in the dataset's order.

    `advantage="grpo"` compares the trajectories of a group by their frozen `trajectory_reward`; `"none"` leaves advantages absent.
    Weights are token means over the whole dataset, so the batches' losses add up to the dataset's. `verify` checks what is read
    against the hashes that were frozen.

    Raises:
        StoreError: there is no such dataset, or what is stored is not what was frozen.
        InvalidRecord: a step without token ids, a group that mixes models, tokenizers or policies, a trajectory without reward.
    """
    steps = warehouse.datasets.read(dataset, version, verify=verify)
    _require_tokens(steps)
    trained = max(1, len(steps["response_ids"].combine_chunks().flatten()))
    for rows in _consecutive(steps["group_id"]):
        group = steps.slice(rows.start, len(rows))
        _require_one(group, "fingerprint", "ids of different models or tokenizers cannot be merged")
        _require_one(group, "policy", "an RL batch is of one policy")
        sequences = Sequences.from_arrow(group["prompt_ids"], group["response_ids"], group["logprobs"])
        weight = np.full(len(sequences), 1 / trained, np.float32)
        merged = merge(sequences, advantage=_grpo(group) if advantage == "grpo" else None, weight=weight)
        yield GroupBatch(group["group_id"][0].as_py(), tuple(group["step_id"].to_pylist()), merged)


def _require_tokens(steps: pa.Table) -> None:
    missing = steps.filter(steps["prompt_ids"].is_null())
    if missing.num_rows:
        first = missing["step_id"][0].as_py()
        raise InvalidRecord(
            "prompt_ids",
            f"{missing.num_rows} steps have no token ids, first {first}; select those that do (`prompt_length IS NOT NULL`)",
        )


def _require_one(group: pa.Table, column: str, why: str) -> None:
    values = group[column].unique().to_pylist()
    if len(values) > 1:
        raise InvalidRecord(column, f"group {group['group_id'][0].as_py()!r} has {values}: {why}; select one of them")


def _consecutive(groups: pa.ChunkedArray) -> Iterator[range]:
    """The rows of each group: a dataset is ordered by group. Steps without a group are one of their own."""
    ends = groups.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    borders = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(ends)]
    for start, stop in pairwise(borders):
        if stop > start:
            yield range(start, stop)


def _grpo(group: pa.Table) -> F32:
    """Per step: the advantage of its trajectory among the trajectories of the group."""
    coded = group["trajectory_id"].combine_chunks().dictionary_encode()
    index = coded.indices.to_numpy().astype(np.int64)
    first = np.unique(index, return_index=True)[1]
    rewards = group["trajectory_reward"].take(pa.array(first)).to_numpy().astype(np.float64)
    if np.isnan(rewards).any():
        lacking = coded.dictionary.take(pa.array(np.flatnonzero(np.isnan(rewards)))).to_pylist()
        raise InvalidRecord(
            "trajectory_reward", f"no reward for {lacking}: give one, select others, or ask for advantage='none'"
        )
    return spread_to_steps(grpo(rewards, np.zeros(len(rewards), np.int64)), index)
