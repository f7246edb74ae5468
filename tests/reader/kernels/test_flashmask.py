from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepwell.reader import Sequences, dense_mask, flashmask_rows, merge


@given(data=st.data())
def test_each_column_is_hidden_from_its_row_on(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    rows = flashmask_rows(batch)
    size = batch.tokens_merged
    assert rows.shape == (1, 1, size, 1)
    assert rows.dtype == np.int32
    visible = np.tri(size, dtype=bool)  # the kernel is told causal=True
    for key in range(size):
        visible[rows[0, 0, key, 0] :, key] = False
    assert np.array_equal(visible, dense_mask(batch))
