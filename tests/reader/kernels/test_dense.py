from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences, dense_mask, merge


@given(data=st.data())
def test_each_token_sees_its_ancestors_and_itself(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    wanted = np.zeros((batch.tokens_merged, batch.tokens_merged), bool)
    for query in range(batch.tokens_merged):
        key = query
        while key >= 0:
            wanted[query, key] = True
            key = int(batch.parent[key])
    assert np.array_equal(dense_mask(batch), wanted)


def test_a_dense_mask_too_large_is_refused_with_the_alternative(branched: Sequences) -> None:
    batch = merge(branched)
    assert dense_mask(batch, limit=7).shape == (7, 7)
    with pytest.raises(InvalidRecord, match=r"7 tokens would need .* GiB; use flex_block_lists, .* raise limit=6"):
        dense_mask(batch, limit=6)
