"""The command line as a whole: its help, its cost, how errors end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.main import get_command

from stepwell.cli import main
from stepwell.cli._main import app, exit_code, say_error
from stepwell.errors import DeliveryError, MissingExtra, SettingsError

COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
HEAVY = [
    "lancedb",
    "lance",
    "mitmproxy",
    "fastapi",
    "uvicorn",
    "pyarrow",
    "duckdb",
    "numpy",
    "structlog",
    "pydantic_settings",
    "cryptography",
]


def test_the_commands_are_all_there() -> None:
    assert set(COMMANDS) == {
        *("run", "demo", "up", "proxy", "gateway", "ingest", "import", "query", "score", "flush", "dataset", "token"),
        *("maintain", "verify", "migrate", "copy", "forget", "export", "doctor", "ca", "version"),
        "dashboard",
    }


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_explains_itself(name: str, capfd: Any) -> None:
    command = COMMANDS[name]
    assert len(command.help) > 20
    assert [
        parameter.name for parameter in command.params if not (getattr(parameter, "help", None) or "").strip()
    ] == []
    assert main([name, "--help"]) == 0
    out, error = capfd.readouterr()
    assert "Usage: stepwell" in out
    assert error == ""


def test_help_says_where_to_begin(capfd: Any) -> None:
    assert main(["--help"]) == 0
    out = capfd.readouterr().out
    assert "stepwell up" in out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["version"]])
def test_nothing_heavy_is_imported_for_help(arguments: list[str]) -> None:
    code = (
        "import contextlib, io, json, sys\nfrom stepwell.cli import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({arguments!r}) == 0\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == []


def test_importing_the_package_imports_no_settings() -> None:
    code = "import sys, stepwell.cli; print('pydantic' in sys.modules, 'typer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False False\n"


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["query"], ["query", "select 1", "--format", "xml"], ["up", "--port", "x"]]
)
def test_wrong_usage_is_2_with_the_usage(arguments: list[str], capfd: Any) -> None:
    assert main(arguments) == 2
    out, error = capfd.readouterr()
    assert out == ""
    assert "Usage" in error


def test_a_wrong_setting_is_one_line_and_2(stepwell: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_PROXY__PROT", "1")
    done = stepwell("ingest")
    assert done.returncode == 2
    assert done.stderr == (
        "stepwell: unknown setting: the variable STEPWELL_PROXY__PROT; did you mean STEPWELL_PROXY__PORT?\n"
    )


def test_errors_end_as_one_line(capfd: Any) -> None:
    say_error(DeliveryError("two\n  lines"))
    assert capfd.readouterr().err == "stepwell: two lines\n"
    assert [exit_code(error) for error in (SettingsError("x"), MissingExtra("a", "b"), DeliveryError("x"))] == [2, 2, 1]


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepwell.cli._settings.load_settings", interrupted)
    assert main(["flush"]) == 130


@pytest.mark.parametrize("package", ["typer", "pydantic_settings", "mitmproxy", "lancedb"])
def test_a_missing_extra_is_named(package: str) -> None:
    code = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {package!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from stepwell.cli import main
sys.exit(main({{"lancedb": ["ingest"], "mitmproxy": ["proxy"]}}.get({package!r}, ["flush"])))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("stepwell: ")
    assert f"{package!r} is missing" in last
    assert "pip install 'stepwell[" in last
    assert "Traceback" not in done.stderr


def test_the_public_names_are_there() -> None:
    import stepwell.cli

    assert all(getattr(stepwell.cli, name) for name in stepwell.cli.__all__)
    with pytest.raises(AttributeError):
        stepwell.cli.nothing  # noqa: B018


def test_the_app_is_typer() -> None:
    assert isinstance(app, typer.Typer)
