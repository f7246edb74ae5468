from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from stepwell import gateway
from stepwell.gateway import GatewayConfig


def test_the_defaults_listen_to_this_machine_only() -> None:
    config = GatewayConfig()
    assert (config.host, config.port, config.max_batch, config.max_body_bytes) == ("127.0.0.1", 8787, 1000, 64 << 20)


@pytest.mark.parametrize("bad", [{"port": -1}, {"port": 65536}, {"max_batch": 0}, {"ports": 1}])
def test_nonsense_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        GatewayConfig.model_validate(bad)


def test_settings_need_no_web_framework() -> None:
    code = (
        "import sys\nfrom stepwell.gateway import GatewayConfig\n"
        "print([name for name in ('fastapi', 'starlette', 'uvicorn', 'pyarrow', 'lance') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = (
        "import sys\nsys.modules['fastapi'] = None\nfrom stepwell import gateway\n"
        "from stepwell.errors import MissingExtra\n"
        "try: gateway.create_app\nexcept MissingExtra as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'fastapi'" in run.stdout and "stepwell[gateway]" in run.stdout


def test_the_public_names() -> None:
    assert gateway.__all__ == ["SCOPES", "GatewayConfig", "Scope", "Token", "Tokens", "create_app", "run_gateway"]
    for name in ("GatewayConfig", "Token", "Tokens", "create_app", "run_gateway"):
        assert callable(getattr(gateway, name))
    with pytest.raises(AttributeError):
        _ = gateway.nothing_such  # pyright: ignore[reportAttributeAccessIssue]
