from __future__ import annotations

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import whole
from tests.trainer._workloads import records

from stepwell.reader import Sequences, merge

DTYPES = {"step_index": torch.int64} | dict.fromkeys(
    ("weight", "old_logprob", "ref_logprob", "advantage"), torch.float32
)


def test_tensors_share_the_memory_of_the_arrays() -> None:
    batch = whole(records("groups"))
    tensors = batch.to_torch()
    assert tensors.keys() == batch.arrays().keys() > DTYPES.keys()
    for name, array in batch.arrays().items():
        tensor = tensors[name]
        assert tensor.dtype == DTYPES.get(name, torch.int32)
        assert tensor.data_ptr() == array.ctypes.data
        assert np.array_equal(tensor.numpy(), array)


def test_what_is_absent_is_no_tensor() -> None:
    tensors = merge(Sequences.from_lists([[1]], [[2]])).to_torch()
    assert not {"old_logprob", "ref_logprob", "advantage"} & tensors.keys()


def test_nothing_is_tensors_without_elements() -> None:
    tensors = merge(Sequences.from_lists([], [])).to_torch()
    assert tensors["input_ids"].shape == (0,)
    assert tensors["tree_cu_seqlens"].tolist() == [0]
