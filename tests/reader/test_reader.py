"""The room's public surface."""

from __future__ import annotations

import inspect
import subprocess
import sys

import stepwell.reader


def test_all_is_what_is_public_and_sorted() -> None:
    found = vars(stepwell.reader).items()
    public = {name for name, value in found if not (name.startswith("_") or inspect.ismodule(value))} - {"annotations"}
    assert set(stepwell.reader.__all__) == public
    assert stepwell.reader.__all__ == sorted(stepwell.reader.__all__)


def test_importing_the_reader_brings_neither_pytorch_nor_the_warehouse() -> None:
    code = "import sys, stepwell.reader; print(*(m for m in ('torch', 'lancedb', 'stepwell.warehouse') if m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert loaded.stdout.strip() == ""
