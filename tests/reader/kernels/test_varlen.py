from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences, dense_mask, merge, varlen_inputs
from stepwell.reader._kernels import varlen


@given(data=st.data())
def test_bottom_right_causal_over_gathered_keys_is_the_mask(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    inputs = varlen_inputs(batch)
    arrays = (inputs.cu_seqlens_q, inputs.cu_seqlens_k, inputs.kv_index)
    assert {a.dtype.name for a in arrays} == {"int32"}
    size = batch.tokens_merged
    seen = np.zeros((size, size), int)
    chains = len(inputs.cu_seqlens_q) - 1
    for chain in range(chains):
        first, stop = inputs.cu_seqlens_q[chain : chain + 2]
        keys = inputs.kv_index[slice(*inputs.cu_seqlens_k[chain : chain + 2])]
        hidden = len(keys) - (stop - first)  # keys before the chain's own: all of its queries see them
        for query in range(first, stop):
            seen[query, keys[: hidden + query - first + 1]] += 1
    assert np.array_equal(seen, dense_mask(batch).astype(int))
    assert inputs.cu_seqlens_q[-1] == size
    assert inputs.cu_seqlens_k[-1] == len(inputs.kv_index) <= batch.tokens_unmerged
    assert inputs.max_seqlen_q == max(np.diff(inputs.cu_seqlens_q), default=0)
    assert inputs.max_seqlen_k == max(np.diff(inputs.cu_seqlens_k), default=0)


def test_keys_run_from_the_root_down(branched: Sequences) -> None:
    inputs = varlen_inputs(merge(branched))
    assert inputs.cu_seqlens_q.tolist() == [0, 6, 7]
    assert inputs.cu_seqlens_k.tolist() == [0, 6, 10]
    assert inputs.kv_index.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 2, 6]


def test_more_keys_than_int32_numbers_are_refused(branched: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varlen, "INT32_MAX", 9)
    with pytest.raises(InvalidRecord, match="kv_index: 10 gathered keys do not fit int32; split the batch"):
        varlen_inputs(merge(branched))
