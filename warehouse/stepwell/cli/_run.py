"""`stepwell run`: an unmodified agent, captured as one trajectory."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepwell.cli import _options as options
from stepwell.errors import DeliveryError, SettingsError

if TYPE_CHECKING:
    from signal import Signals

    from stepwell.cli._bypass import Programs
    from stepwell.cli._control import Control
    from stepwell.cli._settings import Settings


def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The agent: a program and its arguments")],
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="ID", help="The task, the same across epochs")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="ID", help="The rollouts of one sampling round that are compared")
    ] = None,
    split: Annotated[Literal["train", "eval"], typer.Option("--split", help="What the steps are for")] = "train",
    trajectory: Annotated[
        str | None,
        typer.Option("--trajectory", metavar="ID", help="Name of the trajectory", show_default="a new one"),
    ] = None,
    policy_version: Annotated[
        int | None,
        typer.Option(
            "--policy-version",
            metavar="N",
            help="Version of the weights that answer, for steps whose engine does not say it",
            min=-(2**63),
            max=2**63 - 1,
        ),
    ] = None,
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="KEY=VALUE", help="Kept with the trajectory as text; repeatable"),
    ] = None,
    config: options.Config = None,
) -> None:
    """Run an agent, unmodified, and capture its LLM calls as one trajectory.

    Sets HTTPS_PROXY and the variables that make programs trust the proxy's certificate, passes input, output, signals and the
    exit code through, and ends the trajectory: completed when the agent exits with 0, failed otherwise. An HTTPS_PROXY that is
    already set is the proxy through which this run's calls then go on, except to the hosts of NO_PROXY.

    Example: `stepwell run --prompt task-7 --group epoch-1/task-7 --meta seed=3 -- python agent.py --verbose`
    """
    identity = trajectory if trajectory is not None else uuid.uuid4().hex
    _check_identity(identity)
    metadata = _metadata(meta or []) or None
    record = _record(
        identity, prompt_id=prompt, group_id=group, split=split, policy_version=policy_version, metadata=metadata
    )
    from stepwell.cli._settings import load_settings

    raise typer.Exit(_captured(command, record, load_settings(config)))


def _captured(command: Sequence[str], record: dict[str, Any], settings: Settings) -> int:
    """Open the trajectory, run the agent, end the trajectory; the exit code."""
    import os

    from stepwell.cli._bypass import Programs, unreached
    from stepwell.cli._child import signals_held
    from stepwell.cli._run_upstream import upstream_of

    upstream = upstream_of(os.environ, settings.proxy)
    programs = Programs(command[0])
    control, environment = _prepare(record["trajectory_id"], settings, os.environ)
    with signals_held() as mask:
        control.open(record | {"state": "open"} | upstream)
        started, code, end = _run_child(command, environment, mask, programs)
        try:
            ended = control.end(record | end)
        except (DeliveryError, SettingsError) as error:  # the agent's own result counts for more
            ended = {}
            _say(f"trajectory {record['trajectory_id']} could not be ended: {error}")
    if started and (words := unreached(ended, programs, os.environ, settings.proxy)):
        _say(words)
    return code


def _run_child(
    command: Sequence[str], environment: Mapping[str, str], mask: set[Signals], programs: Programs
) -> tuple[bool, int, dict[str, str]]:
    """Whether the agent could be started, the exit code, and how the trajectory ends."""
    from stepwell.cli._child import reason, run_child, shell_code

    try:
        status = run_child(command, environment, mask, programs.look)
    except OSError as error:
        code, why = _not_started(command[0], error)
        return False, code, {"state": "failed", "reason": why}
    return True, shell_code(status), {"state": "failed" if status else "completed", "reason": reason(status)}


def _prepare(identity: str, settings: Settings, base: Mapping[str, str]) -> tuple[Control, dict[str, str]]:
    """How to talk to the proxy, and the agent's environment."""
    from stepwell.cli._agent_environment import agent_environment, proxy_url
    from stepwell.cli._control import Control
    from stepwell.cli._installation import installation
    from stepwell.home import create_token
    from stepwell.proxy import CONTROL_HOST, trust_bundle

    installed = installation(settings.proxy)
    token = create_token(installed.home)
    proxy, gateway = settings.proxy, settings.gateway
    environment = agent_environment(
        base,
        proxy=proxy_url(proxy.host, proxy.run_port, identity, token),
        gateway=f"http://{gateway.host}:{gateway.port}",
        trajectory=identity,
        certificate=installed.certificate,
        bundle=trust_bundle(installed.home, environ=base),
    )
    return Control(proxy.host, proxy.run_port, CONTROL_HOST, identity, token), environment


def _record(identity: str, **fields: object) -> dict[str, Any]:
    return {"trajectory_id": identity} | {name: value for name, value in fields.items() if value is not None}


def _check_identity(identity: str) -> None:
    """It travels as the user name of the proxy's URL, where a colon ends it (RFC 7617, section 2)."""
    if not identity or len(identity) > 256:
        raise SettingsError("--trajectory: an id has 1 to 256 characters")
    if ":" in identity or any(ord(letter) < 32 or ord(letter) == 127 for letter in identity):
        raise SettingsError(f"--trajectory {identity!r}: an id has no ':' and no control characters")
    try:
        identity.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"--trajectory {identity!r}: is not Unicode text") from None


def _metadata(pairs: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise SettingsError(f"--meta {pair!r}: give KEY=VALUE")
        found[key] = value
    return found


def _not_started(program: str, error: OSError) -> tuple[int, str]:
    from stepwell.cli._child import NOT_EXECUTABLE, NOT_FOUND

    missing = isinstance(error, FileNotFoundError)
    words = f"{program} could not be started: {error.strerror}"
    if missing and "/" not in program:
        words = f"{program} could not be started: no such command"
    elif missing and Path(program).exists():
        words = f"{program} could not be started: the interpreter of its first line is missing"
    _say(words)
    return NOT_FOUND if missing else NOT_EXECUTABLE, words


def _say(text: str) -> None:
    print(f"stepwell: {text}", file=sys.stderr, flush=True)  # noqa: T201
