"""Visibility as one boolean per pair of tokens: what every other form is measured against."""

from __future__ import annotations

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import Bools
from stepwell.reader._batch import TreeBatch

DENSE_LIMIT = 16_384
"""Packed tokens above which `dense_mask` refuses: 256 MiB of booleans, and an attention kernel reads them all."""


def dense_mask(batch: TreeBatch, *, limit: int = DENSE_LIMIT) -> Bools:
    """bool [T, T], True where query row sees key column: for SDPA, tests, and small batches.

    Raises:
        InvalidRecord: T exceeds `limit`. T x T memory is what trees are meant to avoid: use `flex_block_lists`.
    """
    size = len(batch.input_ids)
    if size > limit:
        gib = size * size / 2**30
        advice = f"use flex_block_lists, split the batch, or raise limit={limit}"
        raise InvalidRecord("dense_mask", f"{size} tokens would need a mask of {gib:.1f} GiB; {advice}")
    here = np.arange(size, dtype=np.int32)
    return (here[None, :] <= here[:, None]) & (here[:, None] < batch.subtree_end[None, :])
