from __future__ import annotations

import subprocess
import sys

import stepwell.testing

BLOCKED = """
import sys
sys.modules["{package}"] = None
from stepwell.errors import MissingExtra
from stepwell.testing import recorded
try:
    from stepwell.testing import ScriptedServer
except MissingExtra as error:
    print(error.package, error.extra)
"""


def test_a_missing_package_names_the_extra() -> None:
    for package in ("cryptography", "hypercorn"):
        code = BLOCKED.format(package=package)
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
        assert child.stdout == f"{package} testing\n"


def test_the_public_names() -> None:
    assert sorted(stepwell.testing.__all__) == sorted(
        name for name in vars(stepwell.testing) if not name.startswith("_") and name != "annotations"
    )
