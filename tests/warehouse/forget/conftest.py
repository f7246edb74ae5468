"""A data folder to forget something in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.stores import Place
from tests.warehouse.forget.scene import fill

from stepwell.warehouse import Ingest


@pytest.fixture
def data(tmp_path: Path, local: Place, spools: Path) -> Path:
    """A data folder: `spool` and `warehouse` in it."""
    assert (local.uri, spools) == (str(tmp_path / "warehouse"), tmp_path / "spool")
    return tmp_path


@pytest.fixture(scope="module")
def _filled() -> dict[str, Any]:
    return {}


@pytest.fixture
def filled(
    data: Path,
    new_feed: Callable[..., Any],
    local: Place,
    spools: Path,
    drained: Callable[[Ingest], int],
    _filled: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """A trajectory to be forgotten and one of which a step is, in tables, a dataset with pins, an index, and files of no version."""
    if not _filled:
        _filled.update(fill(new_feed, local, spools, drained), root=tmp_path_factory.mktemp("filled") / "data")
        shutil.copytree(data, _filled["root"])
    for folder in ("warehouse", "spool"):
        shutil.rmtree(data / folder)
        shutil.copytree(_filled["root"] / folder, data / folder)
    return _filled
