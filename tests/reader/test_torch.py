from __future__ import annotations

import sys

import numpy as np
import pytest

from stepwell.errors import MissingExtra
from stepwell.reader import Sequences, merge


def test_without_pytorch_the_error_says_what_to_do(branched: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # what an import finds when the package is not there
    with pytest.raises(MissingExtra, match=r"'torch' is missing.*install the PyTorch build") as caught:
        merge(branched).to_torch()
    assert caught.value.package == "torch"
    assert isinstance(caught.value.__cause__, ImportError)


def test_tensors_share_the_memory_of_the_arrays(branched: Sequences) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    batch = merge(branched)
    tensors = batch.to_torch()
    assert tensors.keys() == batch.arrays().keys()
    assert "advantage" not in tensors
    for name, array in batch.arrays().items():
        assert isinstance(tensors[name], torch.Tensor)
        assert tensors[name].data_ptr() == array.ctypes.data
        assert np.array_equal(tensors[name].numpy(), array)
