"""`merge`: sequences in, one `TreeBatch` out."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from stepwell.reader._arrays import I32, I64, offsets_of, places, ranges, stretches
from stepwell.reader._batch import TreeBatch
from stepwell.reader._check import check_conservation
from stepwell.reader._prefix import PrefixOrder, prefix_order
from stepwell.reader._sequences import Sequences
from stepwell.reader._terms import LossTerms
from stepwell.reader._tree import PrefixTree, build_tree


def merge(
    sequences: Sequences,
    *,
    advantage: Any = None,
    weight: Literal["token-mean"] | Any = "token-mean",
    ref_logprob: Any = None,
    prefixes: PrefixOrder | None = None,
) -> TreeBatch:
    """Merge steps into one batch in which every shared prefix is computed once.

    Args:
        sequences: The steps; N rows.
        advantage: f32 [N], one per step in the order of `sequences`; or an Arrow list column [N], one per response
            id. None leaves it absent.
        weight: `"token-mean"`, one over the trained tokens of all `sequences` (not of the pack, so that packs of
            one batch add up); or like `advantage`. The loss is summed: the weights must hold the normaliser for the
            whole batch over all ranks.
        ref_logprob: f32 [response total] in response layout (every response token, trained or not), or an Arrow
            list column [N], or None.
        prefixes: The rows to merge and their order, when they were sorted before; default all of them.

    Raises:
        InvalidRecord: Lengths that disagree; a value that is not finite where a token is trained on it (such as the
            NaN of a trajectory without a reward: leave those steps out with `Sequences.select`).
    """
    tree = build_tree(sequences, prefix_order(sequences) if prefixes is None else prefixes)
    parent, input_ids = _parents(tree), _own_tokens(sequences, tree)
    terms = LossTerms.of(sequences, tree.rows)
    occurrence_target, target_position = _targets(tree, terms)
    offsets = terms.offsets.astype(np.int32)
    batch = TreeBatch(
        input_ids=input_ids,
        position_ids=ranges(tree.shared, tree.lengths - tree.shared, np.int32),
        subtree_end=tree.segment_end.astype(np.int32).repeat(tree.segment_lengths),
        parent=parent,
        tree_cu_seqlens=np.append(tree.chain_start[tree.chain_depth == 0], tree.total).astype(np.int32),
        target_source=parent[target_position],
        target_id=input_ids[target_position],
        target_position=target_position.astype(np.int32),
        occurrence_target=occurrence_target,
        occurrence_step=np.arange(len(tree.rows), dtype=np.int32).repeat(offsets[1:] - offsets[:-1]),
        occurrence_offsets=offsets,
        weight=terms.weights(weight),
        step_index=sequences.step_index[tree.rows],
        tree=tree,
        old_logprob=None if sequences.old_logprob is None else terms.of_responses(sequences.old_logprob),
        ref_logprob=None if ref_logprob is None else terms.token_values("ref_logprob", ref_logprob),
        advantage=None if advantage is None else terms.values("advantage", advantage),
    )
    check_conservation(batch, sequences, terms)
    return batch


def _own_tokens(sequences: Sequences, tree: PrefixTree) -> I32:
    """[T] What each row does not share, one after the other."""
    start, stop = sequences.offsets[tree.rows] + tree.shared, sequences.offsets[tree.rows + 1]
    return stretches(sequences.tokens, start, stop - start)


def _parents(tree: PrefixTree) -> I32:
    """[T] A token hangs from the one before it, but for the first of a chain."""
    parent = np.arange(-1, tree.total - 1, dtype=np.int32)
    parent[tree.chain_start] = tree.chain_parent
    return parent


def _targets(tree: PrefixTree, terms: LossTerms) -> tuple[I32, I64]:
    """occurrence_target [R] and target_position [U]: the trained positions, and each of them once."""
    if terms.trained is None:
        return _targets_of_spans(tree.span_start, tree.span_length)
    position = ranges(tree.span_start, tree.span_length)[terms.trained]
    trained = np.zeros(tree.total, np.bool_)
    trained[position] = True
    rank = np.cumsum(trained, dtype=np.int32) - np.int32(1)
    return rank[position], np.flatnonzero(trained)


def _targets_of_spans(start: I64, length: I64) -> tuple[I32, I64]:
    """The same where all of every span is trained: spans that overlap are one stretch of targets, and no token needs to be looked at."""
    start, stop = start[length > 0], (start + length)[length > 0]
    order = start.argsort()
    begun, reached = start[order], np.maximum.accumulate(stop[order])
    apart = places(begun[1:] > reached[:-1])
    begins = np.concatenate([begun[:1], begun[apart + 1]])
    sizes = np.concatenate([reached[apart], reached[-1:]]) - begins
    stretch = begins.searchsorted(start, side="right") - 1
    rank = offsets_of(sizes)[stretch] + start - begins[stretch]
    return ranges(rank, stop - start, np.int32), ranges(begins, sizes)
