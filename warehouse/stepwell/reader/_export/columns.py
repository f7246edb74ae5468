"""Optimizer steps as record batches: what one row of an export is, column by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from stepwell.reader._arrays import I64, Array, offsets_of
from stepwell.reader._batch import TreeBatch
from stepwell.reader._modes import Merge
from stepwell.reader._read.batches import TreeBatches
from stepwell.reader.adapters import Rows, rows_of

_TOKENS = 4 << 20
"""About so many in one record batch: columns have 32-bit offsets, and a batch is built whole."""
_DETAILS = ("prompt_id", "trajectory_reward")
_MEANINGS = {
    "optimizer_step": "whose `weight`s belong together, from 0",
    "trajectory_id": "whose steps these are",
    "group_id": "the prompt group; null where there is none",
    "prompt_id": "the task",
    "trajectory_reward": "as it was when the dataset was frozen; null where there is none",
    "step_ids": "the steps that train here, in order",
    "trajectory_ids": "of each of `step_ids`",
    "group_ids": "of each of `step_ids`",
    "prompt_ids": "of each of `step_ids`: the task, by name",
    "trajectory_rewards": "of each of `step_ids`",
    "input_ids": "token ids",
    "loss_mask": "per token: it was sampled, and is trained",
    "step": "per token: which of `step_ids` sampled it; -1 where it is not trained",
    "position_ids": "per token: its position in every step that it belongs to",
    "subtree_end": "per token: query q sees key k when `k <= q < subtree_end[k]`",
    "parent": "per token: where the token before it is; -1 at a root",
    "tree_cu_seqlens": "where each tree begins, and the number of tokens",
    "target_source": "per trained token: where the hidden state is that predicts it",
    "target_id": "per trained token: its id",
    "target_position": "per trained token: where it is",
    "occurrence_target": "per loss term: its place among the trained tokens",
    "occurrence_step": "per loss term: which of `step_ids` it belongs to",
    "occurrence_offsets": "where the loss terms of each of `step_ids` begin, and their number",
    "weight": "factor of the loss term; the loss is the sum over all rows of an optimizer step",
    "old_logprob": "log-probability under the policy that sampled",
    "advantage": "of the loss term",
}


def meaning(column: str) -> str:
    """What a column holds, in words."""
    return _MEANINGS[column]


def record_batches(batch: TreeBatches, merge: Merge, details: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of an optimizer step: a pack each of a tree, a sequence each otherwise. Empty packs are none.

    Args:
        details: prompt_id and trajectory_reward by step_id, as `step_details` reads them.
    """
    if merge == "tree":
        yield from _packs(batch, details)
        return
    rows = rows_of(batch, details)
    for some in _pieces(rows.offsets):
        yield _sequences(rows, some, batch.number)


def _sequences(rows: Rows, some: slice, number: int) -> pa.RecordBatch:
    last = rows.last_step[some]
    begin, end = int(rows.offsets[some.start]), int(rows.offsets[some.stop])
    at = rows.offsets[some.start : some.stop + 1] - begin
    steps, step_offsets, step = _steps_of(rows.step[begin:end], at)
    per_token: dict[str, Array | None] = {
        "input_ids": rows.tokens[begin:end],
        "loss_mask": rows.trained[begin:end],
        "step": step,
        **{
            name: None if values is None else values[begin:end]
            for name, values in (
                ("weight", rows.weight),
                ("old_logprob", rows.old_logprob),
                ("advantage", rows.advantage),
            )
        },
    }
    return pa.record_batch(
        {
            "optimizer_step": pa.array(np.full(len(last), number, np.int32)),
            **{name: _taken(rows.steps, name, last) for name in ("trajectory_id", "group_id", *_DETAILS)},
            "step_ids": _lists(_taken(rows.steps, "step_id", steps), step_offsets),
            **{name: _lists(pa.array(values), at) for name, values in per_token.items() if values is not None},
        }
    )


def _steps_of(step: Array, at: I64) -> tuple[Array, I64, Array]:
    """Rows of `steps` that train in each sequence, where those of each begin, and per token its place among those of its sequence.

    The terms of a step are next to each other, so a step begins where the one before it, or the sequence, ends.
    """
    trained = np.flatnonzero(step >= 0)
    row = np.searchsorted(at, trained, side="right") - 1
    begins = np.ones(len(trained), np.bool_)
    begins[1:] = (np.diff(row) != 0) | (np.diff(step[trained]) != 0)
    offsets = offsets_of(np.bincount(row[begins], minlength=len(at) - 1).astype(np.int64))
    place = np.full(len(step), -1, np.int32)
    place[trained] = np.cumsum(begins) - 1 - offsets[row]
    return step[trained[begins]], offsets, place


def _packs(batch: TreeBatches, details: pa.Table) -> Iterator[pa.RecordBatch]:
    index = batch.steps["step_index"].to_numpy()
    for pack in batch:
        if len(pack.step_index):
            yield _pack(pack, np.searchsorted(index, pack.step_index), batch, details)


def _pack(pack: TreeBatch, steps: Array, batch: TreeBatches, details: pa.Table) -> pa.RecordBatch:
    arrays = {name: values for name, values in pack.arrays().items() if name != "step_index"}
    named = {
        "step_ids": _taken(batch.steps, "step_id", steps),
        "trajectory_ids": _taken(batch.steps, "trajectory_id", steps),
        "group_ids": _taken(batch.steps, "group_id", steps),
        **{f"{name}s": _taken(details, name, steps) for name in _DETAILS},
        **{name: pa.array(values) for name, values in arrays.items()},
    }
    whole = {name: _lists(values, np.array([0, len(values)])) for name, values in named.items()}
    return pa.record_batch({"optimizer_step": pa.array([batch.number], pa.int32()), **whole})


def _taken(table: pa.Table, name: str, rows: Array) -> pa.Array:
    return table[name].take(pa.array(rows)).combine_chunks()


def _lists(values: pa.Array, offsets: Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)


def _pieces(offsets: I64) -> Iterator[slice]:
    """Rows of about `_TOKENS` tokens together, at least one each time."""
    start, rows = 0, len(offsets) - 1
    while start < rows:
        stop = int(np.searchsorted(offsets, offsets[start] + _TOKENS, side="right")) - 1
        stop = max(stop, start + 1)
        yield slice(start, stop)
        start = stop
