"""`stepwell version`."""

from __future__ import annotations

import json
import platform
from importlib.metadata import version
from typing import Any

from stepwell.cli import main


def test_plain(capfd: Any) -> None:
    assert main(["version"]) == 0
    assert capfd.readouterr().out == f"stepwell {version('stepwell')}\n"


def test_json_names_the_parts(capfd: Any) -> None:
    assert main(["version", "--json"]) == 0
    about = json.loads(capfd.readouterr().out)
    assert about["version"] == version("stepwell")
    assert about["python"] == platform.python_version()
    assert about["packages"]["pydantic"] == version("pydantic")
