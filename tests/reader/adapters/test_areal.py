from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences
from stepwell.reader.adapters import rows_of, rows_of_sequences, to_areal

Make = Callable[..., Any]


def test_a_dict_per_row(made: Make) -> None:
    versions = pa.array([3, 3, 4, 4, None], pa.int64())
    details = pa.table({"step_id": [f"s{row}" for row in range(5)], "policy_version": versions})
    long, _, other = to_areal(rows_of(made(), details))
    assert long["input_ids"].tolist() == [[1, 2, 11, 12, 3, 13, 4, 5, 14, 15, 16]]
    assert long["loss_mask"].tolist() == [[0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1]]
    assert long["versions"].tolist() == [[-1, -1, 3, 3, -1, 3, -1, -1, 4, 4, 4]]
    assert other["versions"].tolist() == [[-1, 0, 0, 0, 0]]
    assert long["rewards"].tolist() == pytest.approx([0.5])
    assert {name: (values.dtype.type, values.shape) for name, values in long.items()} == {
        "input_ids": (np.int64, (1, 11)),
        "loss_mask": (np.int64, (1, 11)),
        "logprobs": (np.float32, (1, 11)),
        "versions": (np.int64, (1, 11)),
        "attention_mask": (np.bool_, (1, 11)),
        "rewards": (np.float32, (1,)),
    }


def test_what_areal_would_cut_or_lose_is_refused(made: Make) -> None:
    with pytest.raises(InvalidRecord, match="raise its reward_clip"):
        to_areal(made(), clip=1.0)
    masked = Sequences.from_lists([[1]], [[2, 3]], [[-1.0, -1.0]], loss_mask=[[True, False]])
    with pytest.raises(InvalidRecord, match="ends with a token that is not trained"):
        to_areal(rows_of_sequences(masked, advantage=np.ones(1, np.float32)))
