from __future__ import annotations

import sys

import pytest

from stepwell.errors import MissingExtra
from stepwell.reader import Sequences, merge


def test_without_pytorch_the_error_says_what_to_do(branched: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # what an import finds when the package is not there
    with pytest.raises(MissingExtra, match=r"'torch' is missing.*install the PyTorch build") as caught:
        merge(branched).to_torch()
    assert caught.value.package == "torch"
    assert isinstance(caught.value.__cause__, ImportError)
