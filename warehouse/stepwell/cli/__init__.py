"""The `stepwell` command: thin, and quick to start.

One file per command (`_up.py`, `_run.py`, `_query.py`, …), each a function with typer annotations that `_main.py` lists. What is
heavy (lancedb, mitmproxy, fastapi, pyarrow, pydantic) is imported inside the functions that need it, never at the top of a module
that `_main.py` reaches; a test holds to it. To add a command, write `_name.py` and add one line to `_main.py`.

`load_settings` layers flags over `STEPWELL_*` variables over `stepwell.toml`; `Stack` starts proxy, gateway and ingest as
supervised child processes. Both are what `stepwell up` uses, open to programs that want the same:

    with Stack(load_settings(data=folder, proxy={"port": 0, "run_port": 0}, gateway={"port": 0})) as stack:
        stack.wait_ready()
        subprocess.run(["stepwell", "run", "--", "python", "agent.py"], env=stack.environment())

The console script is part of the base install, which lacks typer: `main` then names the missing extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepwell.cli._settings import Settings, load_settings
    from stepwell.cli._stack import Ports, Stack

__all__ = ["Ports", "Settings", "Stack", "load_settings", "main"]

_HOMES = {"Ports": "_stack", "Stack": "_stack", "Settings": "_settings", "load_settings": "_settings"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    import sys

    from stepwell.errors import MissingExtra

    try:
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        missing = MissingExtra(error.name or "typer", "all")
        print(f"stepwell: {missing}", file=sys.stderr)  # noqa: T201
        return 2
    from stepwell.cli._main import run

    return run(arguments)


def __getattr__(name: str) -> Any:
    if (module := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
