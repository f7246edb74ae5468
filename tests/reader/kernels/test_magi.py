from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwell.reader import Sequences, dense_mask, magi_slices, merge


@given(data=st.data())
def test_the_slices_cover_the_mask_once(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    slices = magi_slices(batch)
    assert {a.dtype.name for a in (slices.q_ranges, slices.k_ranges, slices.attn_type_map)} == {"int32"}
    covered = np.zeros((batch.tokens_merged, batch.tokens_merged), int)
    for (q0, q1), (k0, k1), kind in zip(slices.q_ranges, slices.k_ranges, slices.attn_type_map, strict=True):
        assert q0 < q1
        assert k0 < k1
        assert kind == 0 or (q0, q1) == (k0, k1)
        covered[q0:q1, k0:k1] += np.tri(q1 - q0, k1 - k0, dtype=int) if kind == 1 else 1
    assert np.array_equal(covered, dense_mask(batch).astype(int))


def test_one_causal_slice_per_chain_and_one_full_slice_per_ancestor_run(branched: Sequences) -> None:
    """1 2 3 | 4 9 6 goes straight down; 5 hangs from the 3."""
    slices = magi_slices(merge(branched))
    assert slices.q_ranges.tolist() == [[0, 6], [6, 7], [6, 7]]
    assert slices.k_ranges.tolist() == [[0, 6], [6, 7], [0, 3]]
    assert slices.attn_type_map.tolist() == [1, 1, 0]


def test_an_empty_batch_has_no_slices() -> None:
    slices = magi_slices(merge(Sequences.from_lists([], [])))
    assert slices.q_ranges.shape == slices.k_ranges.shape == (0, 2)
    assert slices.attn_type_map.shape == (0,)
