"""The package's face: what it offers, what importing it costs, what it says when the extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepwell.warehouse as package
from stepwell.errors import MissingExtra


def test_everything_that_is_offered_is_there() -> None:
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    assert package.__all__ == sorted(package.__all__, key=lambda name: (name.islower(), name))


def test_what_is_not_offered() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = package.nonsense


HEAVY = ("lance", "lancedb", "pyarrow", "numpy", "duckdb", "boto3", "orjson")


@pytest.mark.parametrize("code", ["import stepwell.warehouse", "from stepwell.warehouse import IngestConfig"])
def test_importing_is_cheap(code: str) -> None:
    check = f"import sys; {code}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_missing_extra_is_named() -> None:
    check = (
        "import sys; sys.modules['lance'] = None\n"
        "from stepwell.errors import MissingExtra\n"
        "try:\n    from stepwell.warehouse import Warehouse\n"
        "except MissingExtra as error:\n    print(error.package, error.extra, error)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lance warehouse the package 'lance' is missing")
    assert "pip install 'stepwell[warehouse]'" in done.stdout
    assert issubclass(MissingExtra, ImportError)
