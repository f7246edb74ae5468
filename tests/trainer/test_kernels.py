from __future__ import annotations

import numpy as np
import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import whole
from tests.trainer._model import Tensor
from tests.trainer._workloads import WORKLOADS, records
from torch.nn.attention.flex_attention import BlockMask, create_block_mask  # pyright: ignore[reportMissingImports]

from stepwell.reader import dense_mask, flex_block_lists


@pytest.mark.parametrize("block", [16, 128])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_block_lists_are_those_that_flexattention_finds_itself(workload: str, block: int) -> None:
    """`create_block_mask` evaluates every pair of tokens, which is what the lists save."""
    batch = whole(records(workload))
    lists = flex_block_lists(batch, block)
    size = len(lists.subtree_end)
    ends = torch.from_numpy(lists.subtree_end)

    def mask_mod(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < ends[k])

    kinds = (
        *(lists.kv_num_blocks, lists.kv_indices),
        *(lists.full_kv_num_blocks, lists.full_kv_indices),
    )
    ours = BlockMask.from_kv_blocks(
        *(torch.from_numpy(array)[None, None] for array in kinds), BLOCK_SIZE=block, mask_mod=mask_mod
    )
    wanted = create_block_mask(mask_mod, 1, 1, size, size, device="cpu", BLOCK_SIZE=block)
    for name in ("kv", "full_kv", "q", "full_q"):
        counts, found = getattr(ours, f"{name}_num_blocks"), getattr(ours, f"{name}_indices")
        assert torch.equal(counts, getattr(wanted, f"{name}_num_blocks")), name
        others = getattr(wanted, f"{name}_indices")
        for row, count in enumerate(counts[0, 0].tolist()):
            assert found[0, 0, row, :count].tolist() == others[0, 0, row, :count].tolist(), name
    visible = dense_mask(batch)
    inside = torch.arange(batch.tokens_merged)
    assert np.array_equal(mask_mod(None, None, inside[:, None], inside[None, :]).numpy(), visible)
