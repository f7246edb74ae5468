"""The package is cheap to import and says what it misses."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stepwell.proxy
from stepwell.errors import MissingExtra


def test_everything_public_is_there() -> None:
    for name in stepwell.proxy.__all__:
        assert getattr(stepwell.proxy, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = stepwell.proxy.nothing


def test_importing_it_loads_nothing_heavy() -> None:
    code = (
        "import sys, stepwell.proxy as p; p.ProxyConfig(); "
        "print([name for name in ('mitmproxy', 'cryptography', 'uvloop', 'orjson') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(("package", "name"), [("mitmproxy", "run_proxy"), ("cryptography", "ensure_ca")])
def test_a_missing_package_is_named_with_its_extra(package: str, name: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None; import stepwell.proxy as p; from stepwell.errors import MissingExtra\n"
        f"try: p.{name}\nexcept MissingExtra as error: print(error.package, error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith(f"{package} "), done.stderr
    assert "stepwell[proxy]" in done.stdout


def test_an_older_python_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 9, "final", 0))
    with pytest.raises(MissingExtra, match=r"needs Python 3\.12 or newer"):
        stepwell.proxy._check_python()
