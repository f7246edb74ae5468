from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import BlockLists, Sequences, dense_mask, flex_block_lists, merge


def expand(lists: BlockLists) -> tuple[Any, Any]:
    """bool [n, n] each: the partial and the full blocks the lists name."""
    found = []
    for counts, indices in (
        (lists.kv_num_blocks, lists.kv_indices),
        (lists.full_kv_num_blocks, lists.full_kv_indices),
    ):
        assert {counts.dtype.name, indices.dtype.name} == {"int32"}
        named = np.zeros(indices.shape, bool)
        for row, count in enumerate(counts):
            assert (np.diff(indices[row, :count]) > 0).all()
            assert not indices[row, count:].any()
            named[row, indices[row, :count]] = True
        found.append(named)
    return found[0], found[1]


@given(data=st.data(), block=st.integers(1, 9))
def test_block_lists_are_the_dense_mask_in_blocks(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject, block: int
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    lists = flex_block_lists(batch, block)
    padded = len(lists.subtree_end)
    assert padded % block == 0
    assert max(1, batch.tokens_merged) <= padded < max(1, batch.tokens_merged) + block
    visible = np.eye(padded, dtype=bool)  # padding sees itself only
    visible[: batch.tokens_merged, : batch.tokens_merged] = dense_mask(batch)
    here = np.arange(padded)
    by_formula = (here[None] <= here[:, None]) & (here[:, None] < lists.subtree_end[None])
    assert np.array_equal(by_formula, visible)
    n = padded // block
    blocks = visible.reshape(n, block, n, block).transpose(0, 2, 1, 3).reshape(n, n, -1)
    partial, full = expand(lists)
    assert not (partial & full).any()
    assert np.array_equal(partial | full, blocks.any(-1))
    if block > 1:
        assert np.array_equal(full, blocks.all(-1))


def test_blocks_have_a_size(branched: Sequences) -> None:
    with pytest.raises(InvalidRecord, match="must be at least 1"):
        flex_block_lists(merge(branched), 0)
