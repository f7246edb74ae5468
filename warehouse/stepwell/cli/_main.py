"""The list of commands, and how errors end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer

from stepwell.cli._ca import ca
from stepwell.cli._copy import copy
from stepwell.cli._dashboard import dashboard
from stepwell.cli._dataset import app as dataset
from stepwell.cli._demo import demo
from stepwell.cli._doctor import doctor
from stepwell.cli._export import export
from stepwell.cli._flush import flush
from stepwell.cli._forget import forget
from stepwell.cli._import import import_
from stepwell.cli._maintain import maintain
from stepwell.cli._migrate import migrate
from stepwell.cli._query import query
from stepwell.cli._run import run as run_agent
from stepwell.cli._score import score
from stepwell.cli._services import gateway, ingest, proxy
from stepwell.cli._token import app as token
from stepwell.cli._up import up
from stepwell.cli._verify import verify
from stepwell.cli._version import version
from stepwell.errors import MissingExtra, SettingsError, StepwellError

_EXTRA_OF = {
    "duckdb": "warehouse",
    "lance": "warehouse",
    "lancedb": "warehouse",
    "pyarrow": "warehouse",
    "mitmproxy": "proxy",
}
_STACK = "The stack"
_AGENTS = "Agents"
_DATA = "Data"
_ABOUT = "This installation"

app = typer.Typer(
    name="stepwell",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Settings: flags, then `STEPWELL_*` variables (`STEPWELL_PROXY__PORT=9000`), then `stepwell.toml`, then defaults. "
    "Start with `stepwell up`, then `stepwell run -- python agent.py` in another terminal.",
)


@app.callback()
def _stepwell() -> None:
    """Capture agents, keep every LLM call as a step, feed trainers."""


def _add(panel: str, command: Callable[..., Any], **more: Any) -> None:
    app.command(rich_help_panel=panel, **more)(command)


# Options of `run` end where the agent's command begins, with or without `--`.
_add(_AGENTS, run_agent, name="run", context_settings={"allow_interspersed_args": False})
_add(_STACK, demo)
_add(_STACK, up)
_add(_STACK, dashboard)
_add(_STACK, proxy)
_add(_STACK, gateway)
_add(_STACK, ingest)
_add(_DATA, import_, name="import")
_add(_DATA, query)
app.add_typer(dataset, name="dataset", rich_help_panel=_DATA)
_add(_DATA, export)
_add(_DATA, score)
_add(_DATA, flush)
_add(_DATA, maintain)
_add(_DATA, verify)
_add(_DATA, migrate)
_add(_DATA, copy)
_add(_DATA, forget)
app.add_typer(token, name="token", rich_help_panel=_ABOUT)
_add(_ABOUT, doctor)
_add(_ABOUT, ca)
_add(_ABOUT, version)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line. What Stepwell refuses becomes one line on stderr and an exit code, never a traceback."""
    try:
        app(args=arguments, prog_name="stepwell")
    except SystemExit as ended:
        return _code(ended.code)
    except StepwellError as error:
        say_error(error)
        return exit_code(error)
    except ModuleNotFoundError as error:
        package = (error.name or "?").partition(".")[0]
        if package == "stepwell":
            raise
        missing = MissingExtra(package, _EXTRA_OF.get(package, "all"))
        say_error(missing)
        return exit_code(missing)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def exit_code(error: StepwellError) -> int:
    """2 for what the user must set right before it can work, 1 for everything else."""
    return 2 if isinstance(error, SettingsError | MissingExtra) else 1


def say_error(error: StepwellError) -> None:
    """One line, whatever the message is made of."""
    print(f"stepwell: {' '.join(str(error).split())}", file=sys.stderr, flush=True)  # noqa: T201


def _code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
