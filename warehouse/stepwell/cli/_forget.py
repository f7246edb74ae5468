"""`stepwell forget`: data out for good."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from stepwell.cli import _options as options
from stepwell.errors import SettingsError

if TYPE_CHECKING:
    from stepwell.warehouse import Forgotten

_SHOWN = 20


def forget(
    trajectory: Annotated[
        list[str] | None,
        typer.Option("--trajectory", metavar="ID", help="A trajectory, whole; may be given several times"),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Which steps: a condition over the view `steps`")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go and what it touches, and stop")] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0, metavar="SECONDS", help="How long a running ingest or proxy may take for its part"
        ),
    ] = 60.0,
    as_json: options.Json = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Remove trajectories or steps for good, and see that they do not come in again.

    Out of every table, old versions, tags and pins, quarantine, announced flushes and the spools of this data folder; ingest, proxy and
    gateway may run. Steps that were stored as differences to them are stored whole. Named, and left: steps of others that repeat what
    goes, and datasets, which from then on say that they are incomplete; and the SDK's offline spools of this user, which are not looked
    into: what of them was forgotten is refused when it arrives. Out of reach: the spools of other machines (run it there, too), copies
    (`stepwell copy` brings it to them), exports, backups.

    Interrupted, it is finished by the next one, whatever that one is asked for.

    Example: `stepwell forget --where "step_id in (select target_id from feedback where text = 'delete me')" --dry-run`
    """
    from stepwell.cli._opened import opened
    from stepwell.cli._settings import load_settings

    if not trajectory and where is None:
        raise SettingsError("name trajectories with --trajectory, or select steps with --where")
    if not (yes or dry_run or sys.stdin.isatty()):
        raise SettingsError("nothing is forgotten without being asked: give --yes, or --dry-run")
    settings = load_settings(config, data=data, warehouse=warehouse)
    from stepwell.warehouse import Forget

    seen: list[Forgotten] = []

    def confirm(would: Forgotten) -> bool:
        seen.append(would)
        return not dry_run and (yes or _confirmed(would))

    work = Forget(opened(settings), settings.data, redact=settings.redact, patience=timeout)
    done = work.run(trajectory or (), where, confirm=confirm)
    if done is None and not dry_run:
        raise typer.Exit(1)
    told, undelivered = done or seen[0], _undelivered()
    if as_json:
        print(json.dumps({**asdict(told), "undelivered": undelivered}))  # noqa: T201
    else:
        sys.stdout.write(_text(told, done=done is not None) + _waiting(undelivered))


def _confirmed(would: Forgotten) -> bool:
    sys.stderr.write(_text(would, done=False))  # as the question: what is written to a file or a pipe is the outcome
    return typer.confirm("Forget this for good?", err=True)


def _text(told: Forgotten, *, done: bool) -> str:
    verb = "forgotten" if done else "would be forgotten"
    lines = [
        f"{verb}: {told.steps} steps, {told.events} events and {told.exchanges} exchanges, {len(told.trajectories)} whole trajectories",
        f"part of it are {told.resumed} runs that were interrupted" if told.resumed else "",
        f"stored anew without them: {told.rebased} steps" if told.rebased else "",
        *_listed("incomplete datasets", told.datasets),
        *_listed("repeat some of it and stay", [f"{name} ({len(steps)} steps)" for name, steps in told.quoted.items()]),
        *_listed("could not be read before, and stay so", told.unreadable),
        *_listed("tags removed", told.tags),
        *_listed("indices removed that Stepwell does not make", told.indices),
        *_listed("unfinished files that nobody can read; clean-up takes them after a week", told.unreadable_files),
        *_listed("spools to be made anew once all of them is committed", told.spools_pending),
    ]
    return "".join(f"{line}\n" for line in lines if line)


def _undelivered() -> dict[str, int]:
    """By path of an offline spool of the SDK, how many records wait in it."""
    from stepwell.sdk.offline import undelivered

    return {str(path): count for path, count in undelivered().items()}


def _waiting(undelivered: dict[str, int]) -> str:
    what = (
        "not looked into: what programs here have yet to deliver; what of it was forgotten is refused when it arrives"
    )
    lines = _listed(what, [f"{path} ({count} records)" for path, count in undelivered.items()])
    return "".join(f"{line}\n" for line in lines)


def _listed(what: str, names: object) -> list[str]:
    found = [str(name) for name in names] if isinstance(names, list | dict) else []
    more = f", and {len(found) - _SHOWN} more (--json has all)" if len(found) > _SHOWN else ""
    return [f"{what}: {', '.join(found[:_SHOWN])}{more}"] if found else []
