"""A frozen dataset as merged batches, one per prompt group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, Bools
from stepwell.reader._batch import TreeBatch
from stepwell.reader._credit import Rollouts, assign
from stepwell.reader._media import Media, keyed
from stepwell.reader._merge import merge
from stepwell.reader._prefix import prefix_order
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
    one, also those of which nothing was selected or may be trained on, so that a filter does not move the baseline. `"none"` leaves
    advantages absent.
    Steps that are not trainable, and those whose ids a tokenizer made up from text, are left out unless `include_untrainable`.
    Weights are token means over the whole dataset, so the batches' losses add up to the dataset's. Images are told apart as `BatchReader`
    does. `verify` checks what is read against the hashes that were frozen; `allow_incomplete` also takes a dataset of which something was
    forgotten. Everything is checked before the first batch is given out.

    Raises:
        StoreError: there is no such dataset, or what is stored is not what was frozen.
        InvalidRecord: a step without token ids or with logprobs of another distribution; a group that mixes prompts, models,
            tokenizers or policies; a trajectory without group or reward to compare (`"grpo"`).
    """
    read = warehouse.datasets.read(dataset, version, verify=verify, allow_incomplete=allow_incomplete)
    steps = trained_only(read, include_untrainable=include_untrainable)
    require_tokens(steps)
    groups = list(_consecutive(steps["group_id"]))
    for rows in groups:
        _check(steps.slice(rows.start, len(rows)), compared=advantage == "grpo")
    peers = warehouse.datasets.peers(dataset, version) if advantage == "grpo" else None
    wanted = pc.SetLookupOptions(value_set=steps["step_id"].combine_chunks())
    trained = pc.call_function("is_in", [read["step_id"]], wanted).to_numpy()
    credit = assign(_rollouts(read, trained, peers), advantage)
    values = None if credit.advantage is None else credit.advantage[trained]
    return (_batch(warehouse, steps, rows, values, credit.weight[trained]) for rows in groups)


def _check(group: pa.Table, *, compared: bool) -> None:
    """Nothing in the group speaks against training on it, nor against comparing its trajectories."""
    require_one(group, "fingerprint", "ids of different models or tokenizers cannot be merged")
    require_one(group, "policy", "an RL batch is of one policy")
    require_old_logprobs(group)
    if compared:
        require_comparable(group)
        _require_rewards(group)


def _require_rewards(group: pa.Table) -> None:
    lacking = group.filter(group["trajectory_reward"].is_null())["trajectory_id"].unique().to_pylist()
    if lacking:
        raise InvalidRecord(
            "trajectory_reward", f"no reward for {lacking}: give one, select others, or ask for advantage='none'"
        )


def _batch(warehouse: Warehouse, steps: pa.Table, rows: range, advantage: F32 | None, weight: F32) -> GroupBatch:
    group = steps.slice(rows.start, len(rows))
    sequences = Sequences.from_arrow(group["prompt_ids"], group["response_ids"], group["logprobs"])
    shown = warehouse.restored(group.select(["step_id", "trajectory_id"]), ["media"]).read_all()["media"].to_pylist()
    compared = keyed(sequences, Media(shown, {})).sequences
    here = slice(rows.start, rows.stop)
    merged = merge(
        sequences,
        advantage=None if advantage is None else advantage[here],
        weight=weight[here],
        prefixes=prefix_order(compared),
    )
    return GroupBatch(group["group_id"][0].as_py(), tuple(group["step_id"].to_pylist()), merged)


def _consecutive(groups: pa.ChunkedArray) -> Iterator[range]:
    """The rows of each group: a dataset is ordered by group. Steps without a group are one of their own."""
    ends = groups.combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    borders = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(ends)]
    for start, stop in pairwise(borders):
        if stop > start:
            yield range(start, stop)


def _rollouts(read: pa.Table, trained: Bools, peers: pa.Table | None) -> Rollouts:
    """The whole groups: every step that was frozen, also those that are not trained on, and the trajectories without any (`peers`).

    What was frozen with its reward counts as complete. Who continues whom is not told: nothing here is discounted.
    """
    tables = [read, *([] if peers is None else [peers])]
    name, group, reward = (
        pa.chunked_array([chunk for table in tables for chunk in table[column].chunks], read.schema.field(column).type)
        for column in ("trajectory_id", "group_id", "trajectory_reward")
    )
    names = name.combine_chunks().dictionary_encode()
    rows = names.indices.to_numpy()
    numbers = group.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
    values = reward.to_numpy().astype(np.float64)
    group_of, reward_of = np.full(len(names.dictionary), -1, np.int32), np.full(len(names.dictionary), np.nan)
    group_of[rows] = numbers
    given = ~np.isnan(values)
    reward_of[rows[given]] = values[given]  # a side call has none, although its trajectory may
    count = read.num_rows
    return Rollouts(
        step=np.arange(count),
        trajectory=rows[:count],
        group=group_of,
        sequence=np.arange(count),
        parent=np.full(count, -1, np.int32),
        complete=np.ones(len(group_of), np.bool_),
        selected=trained,
        response_length=pc.call_function("list_value_length", [read["response_ids"]]).fill_null(0).to_numpy(),
        trajectory_rewards={"reward": reward_of},
        names=names.dictionary.to_pylist(),
    )
