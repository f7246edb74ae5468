"""The rules a `TreeBatch` obeys, as code: shapes, the tree, the loss terms, and conservation against the input.

Each function raises `InvalidRecord` naming the first array that breaks a rule. All are vectorised, O(T + R).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import Array
from stepwell.reader._sequences import Sequences
from stepwell.reader._terms import LossTerms

if TYPE_CHECKING:
    from stepwell.reader._batch import TreeBatch

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
    """
    size = len(batch.input_ids)
    here = np.arange(size, dtype=np.int32)
    parent, depth, end = batch.parent, batch.position_ids, batch.subtree_end
    _require("parent", (parent >= -1) & (parent < here), "must precede its token, or be -1 at a root")
    roots = np.flatnonzero(parent < 0)
    above, bound = depth[parent], end[parent]
    above[roots], bound[roots] = -1, size
    _require("position_ids", depth == above + 1, "must be one more than at the parent")
    _require("subtree_end", (end > here) & (end <= size), "must lie after its token and within the batch")
    _require("subtree_end", end <= bound, "must nest inside the parent's")
    drops = 1 - np.diff(depth, prepend=np.int32(-1), append=np.int32(0))
    _require("subtree_end", np.bincount(end, minlength=size + 1) == drops, "must end where depth drops")
    if not np.array_equal(batch.tree_cu_seqlens, np.append(roots, size)):
        raise InvalidRecord("tree_cu_seqlens", "must hold the position of every root, then the number of tokens")


def check_loss_terms(batch: TreeBatch) -> None:
    """Targets are tokens of the tree read at their parent; every occurrence is a step's, and each target has one."""
    position, used = batch.target_position, batch.occurrence_target
    _require("target_position", (position >= 0) & (position < len(batch.input_ids)), "must be a packed position")
    _require("target_position", np.diff(position, prepend=-1) > 0, "must ascend")
    _require("target_id", batch.target_id == batch.input_ids[position], "must be the token at target_position")
    _require("target_source", batch.target_source == batch.parent[position], "must be the target's parent")
    _require("target_source", batch.target_source >= 0, "a trained token needs a token before it")
    _require("occurrence_target", (used >= 0) & (used < len(position)), "must be a row of the targets")
    _require("target_id", np.bincount(used, minlength=len(position)) > 0, "must have at least one occurrence")
    offsets = batch.occurrence_offsets
    if offsets[0] != 0 or offsets[-1] != len(used) or (np.diff(offsets) < 0).any():
        raise InvalidRecord("occurrence_offsets", f"must ascend from 0 to {len(used)}, the number of loss terms")
    owner = np.repeat(np.arange(len(batch.step_index)), np.diff(offsets))
    _require("occurrence_step", batch.occurrence_step == owner, "must be the step that occurrence_offsets says")
    for name in ("weight", "old_logprob", "ref_logprob", "advantage"):
        values = getattr(batch, name)
        if values is not None:
            _require(name, np.isfinite(values), "must be finite")


def check_conservation(batch: TreeBatch, sequences: Sequences) -> None:
    """Sampled ids, trained tokens and loss terms are the same, one for one and in order."""
    rows = batch.tree.rows
    if not np.array_equal(batch.step_index, sequences.step_index[rows]):
        raise InvalidRecord("step_index", "must number the steps the batch was merged from")
    if not np.array_equal(np.diff(batch.occurrence_offsets), sequences.trained_lengths[rows]):
        raise InvalidRecord("occurrence_offsets", "must give each step one loss term per trained token")
    terms = LossTerms.of(sequences, rows)
    labels = batch.target_id[batch.occurrence_target]
    _require("target_id", labels == sequences.tokens[terms.sampled], "must be the id the step sampled")
    depths = batch.position_ids[batch.target_position[batch.occurrence_target]]
    _require("target_position", depths == terms.depth, "must be at the depth the step sampled the token at")
    if (batch.old_logprob is None) != (sequences.old_logprob is None):
        raise InvalidRecord("old_logprob", "must be present when the sequences have logprobs, and absent otherwise")
    if batch.old_logprob is not None and sequences.old_logprob is not None:
        _require("old_logprob", batch.old_logprob == sequences.old_logprob[terms.response], "must be the recorded one")


def _equal_lengths(batch: TreeBatch, first: str, *others: str) -> None:
    wanted = len(getattr(batch, first))
    for name in others:
        array: Array | None = getattr(batch, name)
        if array is not None and len(array) != wanted:
            raise InvalidRecord(name, f"has {len(array)} entries where {first} has {wanted}")


def _require(name: str, holds: Array, rule: str) -> None:
    if not holds.all():
        raise InvalidRecord(name, f"entry {int((~holds).argmax())} {rule}")
