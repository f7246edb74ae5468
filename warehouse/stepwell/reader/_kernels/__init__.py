"""What attention kernels take to see each token's ancestors and nothing else: `k <= q < subtree_end[k]`.

| kernel | form |
|---|---|
| FlashMask, and any `mask_mod` of one's own | `TreeBatch.subtree_end` itself; `flashmask_rows` gives it the kernel's shape |
| FlexAttention | `flex_block_lists`, for `BlockMask.from_kv_blocks` |
| MagiAttention | `magi_slices` |
| `flash_attn_varlen_func` | `varlen_inputs` |
| SDPA | `dense_mask`, for small batches |

All are computed from lengths and positions, in numpy, on request; but for `dense_mask`, none holds T x T anything.
"""

from __future__ import annotations

from stepwell.reader._kernels.blocks import BlockLists, flex_block_lists
from stepwell.reader._kernels.dense import DENSE_LIMIT, dense_mask
from stepwell.reader._kernels.flashmask import flashmask_rows
from stepwell.reader._kernels.magi import MagiSlices, magi_slices
from stepwell.reader._kernels.varlen import VarlenInputs, varlen_inputs

__all__ = [
    "DENSE_LIMIT",
    "BlockLists",
    "MagiSlices",
    "VarlenInputs",
    "dense_mask",
    "flashmask_rows",
    "flex_block_lists",
    "magi_slices",
    "varlen_inputs",
]
