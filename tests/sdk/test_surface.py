from __future__ import annotations

import subprocess
import sys

import pytest

from stepwell import sdk


def test_all_names_exist_and_are_all_there_is() -> None:
    assert sdk.__all__ == sorted(sdk.__all__)
    for name in sdk.__all__:
        assert getattr(sdk, name) is not None
    public = {name for name in vars(sdk) if not name.startswith("_")} - {
        "annotations",
        "TYPE_CHECKING",
        "client",
        "offline",
        "records",
    }
    assert public <= set(sdk.__all__)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = sdk.nothing_such  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = ["pydantic", "pydantic_core", "httpx2", "httpcore2", "ssl", "asyncio", "anyio", "sqlite3", "numpy"]
    code = f"import sys\nfrom stepwell import sdk\nprint([name for name in {heavy} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
