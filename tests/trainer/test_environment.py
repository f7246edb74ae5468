from __future__ import annotations

import importlib
import sys

import pytest


def test_the_reader_runs_beside_pytorch_on_the_oldest_python() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed here; `make trainer` runs these tests")
    importlib.import_module("stepwell.reader")
    assert sys.version_info[:2] == (3, 11)
    assert not torch.cuda.is_available()
