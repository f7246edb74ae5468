"""`flash_attn_varlen_func` on a tree: queries chain by chain, keys gathered along the path to each chain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, INT32_MAX, offsets_of, ranges
from stepwell.reader._batch import TreeBatch
from stepwell.reader._kernels.runs import ancestor_runs


@dataclass(frozen=True, eq=False)
class VarlenInputs:
    """C chains as C sequences whose keys are longer than their queries. Queries stay where they are in the pack:

        flash_attn_varlen_func(q, k[kv_index], v[kv_index], cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                               causal=True)

    The causal mask must be aligned to the bottom right (flash-attn from 2.1 on): the last query of a chain sees all
    of the chain's keys. Gathering copies keys: `len(kv_index)` is the sum of the chains' depths at their ends, which
    is more than T and at most the unmerged tokens. The gradient of a key adds up over its copies, as indexing does.
    """

    cu_seqlens_q: I32
    """[C+1] Chain c has the queries `[cu_seqlens_q[c], cu_seqlens_q[c+1])` of the pack."""
    cu_seqlens_k: I32
    """[C+1] ... and the keys `kv_index[cu_seqlens_k[c]:cu_seqlens_k[c+1]]`."""
    kv_index: I32
    """[keys] Packed positions: the chain's ancestors from the root down, then the chain."""
    max_seqlen_q: int
    """The longest chain; 0 for an empty batch."""
    max_seqlen_k: int
    """The deepest token, counted from 1."""


def varlen_inputs(batch: TreeBatch) -> VarlenInputs:
    """The chains of a batch as variable-length sequences.

    Raises:
        InvalidRecord: More than 2^31 - 1 gathered keys.
    """
    tree = batch.tree
    runs = ancestor_runs(tree)
    lengths = tree.chain_lengths
    # Each chain comes last among its runs: insert it where the next chain's runs begin.
    start = np.insert(runs.start, runs.offsets[1:], runs.chain_start)
    stop = np.insert(runs.stop, runs.offsets[1:], runs.chain_stop)
    keys = tree.chain_depth + lengths
    if keys.sum() > INT32_MAX:
        raise InvalidRecord("kv_index", f"{keys.sum()} gathered keys do not fit int32; split the batch")
    return VarlenInputs(
        cu_seqlens_q=offsets_of(lengths).astype(np.int32),
        cu_seqlens_k=offsets_of(keys).astype(np.int32),
        kv_index=ranges(start, stop - start).astype(np.int32),
        max_seqlen_q=int(lengths.max(initial=0)),
        max_seqlen_k=int(keys.max(initial=0)),
    )
