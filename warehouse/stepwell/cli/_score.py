"""`stepwell score`: a function of the user's over what is stored; what it returns becomes scores."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stepwell.cli import _options as options

if TYPE_CHECKING:
    from stepwell.cli._score_run import Run, Said
    from stepwell.cli._settings import Settings


def score(
    with_: Annotated[
        str,
        typer.Option("--with", metavar="MODULE:FUNCTION", help="What scores; modules of the current folder are found"),
    ],
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Which ones: a condition over the view `trajectories`, or `steps`"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The score's name; where the function names several, their prefix",
            show_default="the function's; no prefix",
        ),
    ] = None,
    level: Annotated[
        Literal["trajectory", "step"], typer.Option("--level", help="What is scored, one at a time")
    ] = "trajectory",
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="At most so many")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the scores on stdout, and write nothing")] = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Run a verifier or a judge over stored trajectories, and keep what it says.

    The function gets one dict, a row of the view `trajectories` with its `steps` (whole messages, response, rewards, labels), or with
    `--level step` one such step. It returns a number, a bool, a dict of names and numbers, or None for nothing. The scores are then in the
    views, by name: `trajectory_scores['NAME']`, `step_scores['NAME']`. Another run says only what has changed, and that replaces
    what was said. What the function raises is shown and counted; the other scores are kept, and the exit code is 1.

    Example: `stepwell score --with judge:helpful --where "state = 'completed'"`
    """
    from stepwell.cli._opened import opened
    from stepwell.cli._score_run import Run
    from stepwell.cli._score_with import loaded
    from stepwell.cli._settings import load_settings

    settings = load_settings(config, data=data, warehouse=warehouse)
    function = loaded(with_)
    run = Run(opened(settings), function, level, name or with_.rpartition(":")[2], f"score:{with_}", prefix=name)
    said = run.scores(where, limit)
    if dry_run:
        _print(said)
    else:
        _deliver(settings, said)
    _report(run, level, dry_run=dry_run)
    if run.failed:
        raise typer.Exit(1)


def _print(said: Iterator[Said]) -> None:
    for one in said:
        print(f"{one.target}\t{one.name}\t{one.value:g}")  # noqa: T201


def _deliver(settings: Settings, said: Iterator[Said]) -> None:
    from stepwell.cli._import_delivery import Delivery

    with Delivery(settings, {}, spool="score.db") as delivery:
        for one in said:
            delivery.keep(one.entry())
        delivery.finish()


def _report(run: Run, level: str, *, dry_run: bool) -> None:
    verb = "would be written" if dry_run else "written"
    counts: dict[str, Any] = {verb: run.written, "unchanged": run.unchanged, "failed": run.failed}
    parts = ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == verb)
    print(f"{run.looked} {'trajectories' if level == 'trajectory' else 'steps'}; scores: {parts}", file=sys.stderr)  # noqa: T201
