"""FlashMask (arXiv 2410.01359): for each key column, the row from which on it is hidden."""

from __future__ import annotations

from stepwell.reader._arrays import I32
from stepwell.reader._batch import TreeBatch


def flashmask_rows(batch: TreeBatch) -> I32:
    """i32 [1, 1, T, 1]: `startend_row_indices` of `flashmask_attention(q, k, v, ..., causal=True)`.

    One number per key column under a causal mask is the first query row that no longer sees it, for all heads:
    literally `subtree_end`, of which this is a view.
    """
    return batch.subtree_end[None, None, :, None]
