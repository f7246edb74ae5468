"""`stepwell up`: the whole stack, until it is told to stop."""

from __future__ import annotations

import queue
import shlex
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import _options as options

if TYPE_CHECKING:
    from stepwell.cli._stack import Stack

_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def up(
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Proxy port for agents that only know HTTPS_PROXY (0: free)"),
    ] = None,
    run_port: Annotated[
        int | None, typer.Option("--run-port", min=0, max=65535, help="Proxy port that `stepwell run` uses (0: free)")
    ] = None,
    gateway_port: Annotated[
        int | None, typer.Option("--gateway-port", min=0, max=65535, help="Port of the HTTP API (0: free)")
    ] = None,
) -> None:
    """Run the stack: proxy, gateway and ingest.

    It locks the data folder, starts a process that dies again, and stops all of them on Ctrl-C or SIGTERM, after they have
    finished what they were doing (a second Ctrl-C does not wait). Where things listen goes to stdout, the logs to stderr.
    """
    from stepwell.cli._settings import load_settings
    from stepwell.cli._stack import Stack
    from stepwell.errors import SettingsError

    settings = load_settings(
        config,
        data=data,
        warehouse=warehouse,
        proxy={"port": port, "run_port": run_port},
        gateway={"port": gateway_port},
    )
    wake: queue.SimpleQueue[None] = (
        queue.SimpleQueue()
    )  # its put may be called from a signal handler, an Event's set may not
    stack = Stack(settings, say=_Log(), failed=lambda: wake.put(None))
    _stop_on_signals(wake, stack)
    stack.start()
    ready = threading.Thread(target=_say_ready, args=(stack, _how_to_run(config, run_port)), name="ready", daemon=True)
    ready.start()
    try:
        _wait(wake)
    finally:
        stack.stop()
    if stack.failure is not None:
        raise SettingsError(stack.failure)


def _wait(wake: queue.SimpleQueue[None]) -> None:
    """Until something is put. It looks up now and then: a signal that came while the process was stopped may be given to another thread
    when it goes on, and is handled when this one wakes."""
    while True:
        with suppress(queue.Empty):
            return wake.get(timeout=1)


def _stop_on_signals(wake: queue.SimpleQueue[None], stack: Stack) -> None:
    """The first signal stops in good order, a second one at once."""
    received: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        if received:
            stack.kill()
        received.append(number)
        wake.put(None)

    for number in _STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup, or in the background of a script
            signal.signal(number, on_signal)


def _how_to_run(config: Path | None, run_port: int | None) -> Callable[[int], str]:
    """The command line that finds this stack, given the port that it really uses."""
    named = f" --config {shlex.quote(str(config))}" if config else ""

    def command(port: int) -> str:
        from stepwell.cli._settings import load_settings

        by_itself = run_port is None and load_settings(config).proxy.run_port == port
        variable = "" if by_itself else f"STEPWELL_PROXY__RUN_PORT={port} "
        return f"{variable}stepwell run{named} -- python agent.py"

    return command


def _say_ready(stack: Stack, how_to_run: Callable[[int], str]) -> None:
    """Tell where things listen, as soon as they do. What takes longer or fails, the log and `up` itself tell."""
    from stepwell.cli._dashboard import shown_address
    from stepwell.errors import StepwellError

    try:
        ports = stack.wait_ready(timeout=float("inf"))
    except StepwellError:
        return
    _print(
        f"Stepwell is up on {stack.settings.data}\n"
        f"  proxy      http://127.0.0.1:{ports.proxy}  (HTTPS_PROXY; trust the certificate of `stepwell ca`)\n"
        f"  gateway    http://127.0.0.1:{ports.gateway}  (SDK, API)\n"
        f"  dashboard  {shown_address(ports.gateway)}\n"
        f"  warehouse  {stack.settings.warehouse_uri}\n"
        f"Run an agent:  {how_to_run(ports.run)}\n"
        "Ctrl-C stops everything."
    )


def _print(text: str) -> None:
    print(text, flush=True)  # noqa: T201


class _Log:
    """Lines of several processes on one stderr, each with the name of its process, whole."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._color = sys.stderr.isatty()

    def __call__(self, process: str, line: str) -> None:
        name = f"{process:<8}"
        with self._lock:
            sys.stderr.write(f"\x1b[2m{name}\x1b[0m {line}\n" if self._color else f"{name} {line}\n")
            sys.stderr.flush()
