"""The warehouse's answers as flat columns of numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.reader._arrays import F64, I32, Array, Bools
from stepwell.reader._select.sampling import reshaped
from stepwell.reader._select.steps import ABSENT, LOST, Coded, Steps, Trajectories


def trajectories_of(table: pa.Table) -> Trajectories:
    groups = Coded.of(table["group_id"])
    return Trajectories(
        names=table["trajectory_id"].combine_chunks(),
        group=groups.codes,
        groups=pa.array(groups.names, pa.string()),
        prompt=Coded.of(table["prompt_id"]),
        training=_among(table["split"], "train"),
        ended=_among(table["state"], "completed", "failed"),
        rewards=_by_name(table["trajectory_rewards"]),
    )


def in_order(table: pa.Table, trajectories: Trajectories) -> pa.Table:
    """By trajectory and turn; what is of one turn, branches, by id."""
    place = pa.array(_places(table["trajectory_id"], trajectories.names))
    keys = pa.table({"trajectory": place, "turn": table["turn"], "step_id": table["step_id"]})
    ascending = [(name, "ascending") for name in keys.column_names]
    return table.take(pc.call_function("sort_indices", [keys], pc.SortOptions(ascending)))


def steps_of(table: pa.Table, trajectories: Trajectories, elsewhere: pa.Array) -> Steps:
    """`table` as `in_order` gave it; `elsewhere`: ids of steps that are there, in trajectories that have nothing to do with these."""
    step_id = table["step_id"].combine_chunks()
    parent = _places(table["parent_id"], step_id)
    trajectory = _places(table["trajectory_id"], trajectories.names)
    lost = table["parent_id"].is_valid().to_numpy().astype(np.bool_) & (parent < 0)
    lost &= _places(table["parent_id"], elsewhere) < 0
    # A sub-agent with a trajectory of its own may name who called it: that is where it comes from, and no credit goes there.
    inside = (parent >= 0) & (trajectory[parent] == trajectory)
    sampling = Coded.of(table["sampling"])
    return Steps(
        step_id=step_id,
        trajectories=trajectories,
        trajectory=trajectory,
        parent=np.where(lost, LOST, np.where(inside, parent, ABSENT)).astype(np.int32),
        turn=table["turn"].fill_null(0).to_numpy().astype(np.int64),
        **{
            name: _bools(table[name]) for name in ("selected", "training", "superseded", "side", "truncated", "derived")
        },
        realised=np.zeros(len(step_id), np.bool_),
        untrainable=Coded.of(table["untrainable"]),
        prompt_length=_numbers(table["prompt_length"]),
        response_length=_numbers(table["response_length"]),
        logprobs=_numbers(table["logprobs"]),
        reshaped=reshaped(sampling, Coded.of(table["logprobs_mode"])),
        sampling=sampling,
        policy=Coded.of(table["policy"]),
        fingerprint=Coded.of(table["fingerprint"]),
        drift_at=_numbers(table["drift_at"]),
        drift=Coded.of(table["drift_cause"]),
        prompt_key=table["prompt_key"].fill_null(0).to_numpy(),
        rewards=_by_name(table["step_rewards"]),
    )


def _places(column: pa.ChunkedArray, among: pa.Array) -> I32:
    found = pc.call_function("index_in", [column], pc.SetLookupOptions(value_set=among, skip_nulls=True))
    places: I32 = found.fill_null(ABSENT).to_numpy().astype(np.int32)
    return places


def _numbers(column: pa.ChunkedArray) -> I32:
    numbers: I32 = column.fill_null(ABSENT).to_numpy().astype(np.int32)
    return numbers


def _bools(column: pa.ChunkedArray) -> Bools:
    values: Bools = column.fill_null(False).to_numpy().astype(np.bool_)
    return values


def _among(column: pa.ChunkedArray, *values: str) -> Bools:
    return _bools(pc.call_function("is_in", [column], pc.SetLookupOptions(pa.array(values))))


def _by_name(column: pa.ChunkedArray) -> dict[str, F64]:
    """A column of maps from names to numbers, as one column per name."""
    maps = column.combine_chunks()
    counts = np.diff(maps.offsets.to_numpy())
    entries = slice(int(maps.offsets[0].as_py()), int(maps.offsets[-1].as_py()))
    rows, keys = np.repeat(np.arange(len(maps)), counts), maps.keys.dictionary_encode()
    codes: Array = keys.indices.to_numpy()[entries]
    values = maps.items.to_numpy(zero_copy_only=False)[entries]
    found: dict[str, F64] = {}
    for code, name in enumerate(keys.dictionary.to_pylist()):
        here = codes == code
        found[name] = np.full(len(maps), np.nan)
        found[name][rows[here]] = values[here]
    return dict(sorted(found.items()))
