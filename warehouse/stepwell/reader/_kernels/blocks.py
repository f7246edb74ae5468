"""Visibility in blocks: the form of FlexAttention."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, Bools, ranges
from stepwell.reader._batch import TreeBatch


@dataclass(frozen=True, eq=False)
class BlockLists:
    """Block-sparse visibility in the form of FlexAttention's `BlockMask.from_kv_blocks`. n = blocks per side.

    The batch is padded to `n * block` positions (at least one block). A padding position sees itself only, so no
    softmax runs over nothing, and no real token sees it. Pad `input_ids` and `position_ids` with 0 alike, and
    read no targets there. On the trainer's side:

        ends = torch.from_numpy(lists.subtree_end).to(device)
        def mask_mod(b, h, q, k):
            return (k <= q) & (q < ends[k])
        lift = lambda a: torch.from_numpy(a)[None, None].to(device)      # [n] → [1, 1, n]
        mask = BlockMask.from_kv_blocks(
            lift(lists.kv_num_blocks), lift(lists.kv_indices),
            lift(lists.full_kv_num_blocks), lift(lists.full_kv_indices),
            BLOCK_SIZE=lists.block, mask_mod=mask_mod)
    """

    kv_num_blocks: I32
    """[n] Key blocks that query block i sees in part; `mask_mod` is applied inside them."""
    kv_indices: I32
    """[n, n] Which: row i lists them ascending in its first `kv_num_blocks[i]` entries. The rest is 0 and unread."""
    full_kv_num_blocks: I32
    """[n] Key blocks that query block i sees in full."""
    full_kv_indices: I32
    """[n, n] Which, likewise."""
    subtree_end: I32
    """[n * block] The batch's, padded: what `mask_mod` reads."""
    block: int
    """Tokens per side of a block."""


def flex_block_lists(batch: TreeBatch, block: int = 128) -> BlockLists:
    """Block lists of a batch, without a T x T mask: O(T + n^2) time and memory, n = T / `block`.

    Exact, not an estimate. For a query block after the key block, some key is visible when the largest subtree end
    of the key block lies beyond the query block's start, and every key is when the smallest reaches its end. On the
    diagonal causality always hides something (or, for `block=1`, the one pair is left to `mask_mod`).
    """
    if block < 1:
        raise InvalidRecord("block", f"must be at least 1, is {block}")
    size = len(batch.input_ids)
    blocks = max(1, -(-size // block))
    ends = np.arange(1, blocks * block + 1, dtype=np.int32)
    ends[:size] = batch.subtree_end
    per_block = ends.reshape(blocks, block)
    begin = np.arange(blocks, dtype=np.int64)[:, None] * block
    before = np.tri(blocks, k=-1, dtype=np.bool_)
    some = before & (per_block.max(1)[None, :] > begin)
    full = before & (per_block.min(1)[None, :] >= begin + block)
    partial = (some & ~full) | np.eye(blocks, dtype=np.bool_)
    return BlockLists(*_listed(partial), *_listed(full), subtree_end=ends, block=block)


def _listed(visible: Bools) -> tuple[I32, I32]:
    """Counts [n] and left-aligned column numbers [n, n] of the True entries of each row."""
    counts = visible.sum(1, dtype=np.int32)
    rows, columns = np.nonzero(visible)
    listed = np.zeros(visible.shape, np.int32)
    listed[rows, ranges(np.zeros(len(counts), np.int64), counts)] = columns
    return counts, listed
