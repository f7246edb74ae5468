"""A data folder to forget something in."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stores import Place


@pytest.fixture
def data(tmp_path: Path, local: Place, spools: Path) -> Path:
    """A data folder: `spool` and `warehouse` in it."""
    assert (local.uri, spools) == (str(tmp_path / "warehouse"), tmp_path / "spool")
    return tmp_path
