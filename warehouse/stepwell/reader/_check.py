"""The rules a `TreeBatch` obeys, as code: shapes, the tree, the loss terms, and conservation against the input.

Each function raises `InvalidRecord` naming the first array that breaks a rule. All are vectorised, O(T + R).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, I64, Array, places
from stepwell.reader._sequences import Sequences
from stepwell.reader._terms import LossTerms

if TYPE_CHECKING:
    from stepwell.reader._batch import TreeBatch

_FIRST: I64 = np.zeros(1, np.int64)
"""The place of the first of some entries, as `_FIRST[:count]`: none of none."""

_DTYPES: dict[str, Any] = {
    "step_index": np.int64,
    "weight": np.float32,
    "old_logprob": np.float32,
    "ref_logprob": np.float32,
    "advantage": np.float32,
}


def check_shapes(batch: TreeBatch) -> None:
    """Every array is one-dimensional, of its dtype, and as long as the others of its kind."""
    for name, array in batch.arrays().items():
        dtype = _DTYPES.get(name, np.int32)
        if array.ndim != 1 or array.dtype != dtype:
            raise InvalidRecord(name, f"must be a flat array of {np.dtype(dtype)}, is {array.dtype} {array.shape}")
    _equal_lengths(batch, "input_ids", "position_ids", "subtree_end", "parent")
    _equal_lengths(batch, "target_id", "target_source", "target_position")
    _equal_lengths(batch, "occurrence_target", "occurrence_step", "weight", "old_logprob", "ref_logprob", "advantage")
    steps = len(batch.step_index)
    if len(batch.occurrence_offsets) != steps + 1:
        raise InvalidRecord("occurrence_offsets", f"has {len(batch.occurrence_offsets)} entries for {steps} steps")


def check_tree(batch: TreeBatch) -> None:
    """Parents precede, depths count up from the roots, and subtree ends are exactly those of the parent links.

    The last holds when ends nest inside the parent's and as many subtrees end before each position as its depth
    drops: nested ranges can only close innermost first, so the counts leave no other choice of ends.

    Nearly every token hangs from the one before it, is one deeper, and ends where that does, which breaks no rule. So each array is
    searched for the places where it does not go on like this, and the rules are applied there.
    """
    size = len(batch.input_ids)
    parent, depth = batch.parent, batch.position_ids
    chains = places(parent != np.arange(-1, size - 1, dtype=np.int32))
    above = parent[chains]
    _require("parent", (above >= -1) & (above < chains), "must precede its token, or be -1 at a root", chains)
    heads = np.concatenate([_FIRST[:size], chains])
    jumps = places(depth[1:] - depth[:-1] != 1) + 1
    asked = np.concatenate([heads, jumps])
    above = parent[asked]
    counted = depth[asked] == np.where(above < 0, 0, depth[above] + 1)
    _require("position_ids", counted, "must be one more than at the parent", asked)
    _check_ends(batch, heads, jumps)
    if not np.array_equal(batch.tree_cu_seqlens, np.append(heads[parent[heads] < 0], size)):
        raise InvalidRecord("tree_cu_seqlens", "must hold the position of every root, then the number of tokens")


def _check_ends(batch: TreeBatch, heads: I64, jumps: I64) -> None:
    """Those of subtrees, in runs of equal ones. `heads`: where chains begin; `jumps`: where depth does not count up."""
    size, end, depth = len(batch.input_ids), batch.subtree_end, batch.position_ids
    borders = np.concatenate([_FIRST[:size], places(end[1:] != end[:-1]) + 1, [size]])
    runs, after = borders[:-1], borders[1:]
    stops = end[runs]
    within = (stops >= after) & (stops <= size)
    _require("subtree_end", within, "must lie after its token and within the batch", after - 1)
    asked = np.concatenate([heads, runs])
    above = batch.parent[asked]
    bound = np.where(above < 0, size, end[above])
    _require("subtree_end", end[asked] <= bound, "must nest inside the parent's", asked)
    drops = np.concatenate([1 + depth[jumps - 1] - depth[jumps], 1 + depth[-1:]])
    where, place = np.unique(np.concatenate([stops, jumps, borders[-1:] if size else runs]), return_inverse=True)
    left = np.bincount(place, np.concatenate([after - runs, -drops]))
    _require("subtree_end", left == 0, "must end where depth drops", where)


def check_loss_terms(batch: TreeBatch) -> None:
    """Targets are tokens of the tree read at their parent; every occurrence is a step's, and each target has one."""
    position, used, offsets = batch.target_position, batch.occurrence_target, batch.occurrence_offsets
    _require("target_position", position[1:] > position[:-1], "must ascend")
    ends = np.array([0, len(position) - 1])[: len(position)]
    inside = (position[ends] >= 0) & (position[ends] < len(batch.input_ids))
    _require("target_position", inside, "must be a packed position", ends)
    at = position.astype(np.intp)
    _require("target_id", batch.target_id == batch.input_ids[at], "must be the token at target_position")
    _require("target_source", batch.target_source == batch.parent[at], "must be the target's parent")
    _require("target_source", batch.target_source >= 0, "a trained token needs a token before it")
    begins, stops = _runs(used)
    within = (begins >= 0) & (stops <= len(position))
    _require("occurrence_target", within, "must be a row of the targets", begins)
    _check_covered(begins, stops, len(position))
    if offsets[0] != 0 or offsets[-1] != len(used) or (offsets[1:] < offsets[:-1]).any():
        raise InvalidRecord("occurrence_offsets", f"must ascend from 0 to {len(used)}, the number of loss terms")
    owner = np.arange(len(batch.step_index), dtype=np.int32).repeat(offsets[1:] - offsets[:-1])
    _require("occurrence_step", batch.occurrence_step == owner, "must be the step that occurrence_offsets says")
    for name in ("weight", "old_logprob", "ref_logprob", "advantage"):
        values = getattr(batch, name)
        if values is not None:
            _require(name, np.isfinite(values), "must be finite")


def _runs(values: I32) -> tuple[I64, I64]:
    """The runs of values that count up by one: the first of each, and one more than the last."""
    borders = np.concatenate([_FIRST[: len(values)], places(values[1:] - values[:-1] != 1) + 1, [len(values)]])
    begins = values[borders[:-1]].astype(np.int64)
    return begins, begins + borders[1:] - borders[:-1]


def _check_covered(begins: I64, stops: I64, count: int) -> None:
    """All of `count` targets are in one of these runs, at least."""
    order = begins.argsort()
    reached = np.maximum.accumulate(np.concatenate([[0], stops[order]]))
    _require("target_id", np.append(begins[order], count) <= reached, "must have at least one occurrence", reached)


def check_conservation(batch: TreeBatch, sequences: Sequences, terms: LossTerms | None = None) -> None:
    """Sampled ids, trained tokens and loss terms are the same, one for one and in order.

    `terms` are those that the rows of the batch are due, which say nothing of the batch itself; worked out when they are not at hand.
    """
    rows = batch.tree.rows
    if not np.array_equal(batch.step_index, sequences.step_index[rows]):
        raise InvalidRecord("step_index", "must number the steps the batch was merged from")
    if not np.array_equal(
        batch.occurrence_offsets[1:] - batch.occurrence_offsets[:-1], sequences.trained_lengths[rows]
    ):
        raise InvalidRecord("occurrence_offsets", "must give each step one loss term per trained token")
    terms = LossTerms.of(sequences, rows) if terms is None else terms
    used = batch.occurrence_target.astype(np.intp)  # an index of another type is converted at every use
    _require("target_id", batch.target_id[used] == terms.sampled, "must be the id the step sampled")
    depths = batch.position_ids[batch.target_position.astype(np.intp)][used]
    _require("target_position", depths == terms.depth, "must be at the depth the step sampled the token at")
    if (batch.old_logprob is None) != (sequences.old_logprob is None):
        raise InvalidRecord("old_logprob", "must be present when the sequences have logprobs, and absent otherwise")
    if batch.old_logprob is not None and sequences.old_logprob is not None:
        _require(
            "old_logprob", batch.old_logprob == terms.of_responses(sequences.old_logprob), "must be the recorded one"
        )


def _equal_lengths(batch: TreeBatch, first: str, *others: str) -> None:
    wanted = len(getattr(batch, first))
    for name in others:
        array: Array | None = getattr(batch, name)
        if array is not None and len(array) != wanted:
            raise InvalidRecord(name, f"has {len(array)} entries where {first} has {wanted}")


def _require(name: str, holds: Array, rule: str, entries: Array | None = None) -> None:
    """`entries`: which ones `holds` tells of; by default all."""
    if not holds.all():
        first = int((~holds).argmax())
        raise InvalidRecord(name, f"entry {first if entries is None else entries[first]} {rule}")
