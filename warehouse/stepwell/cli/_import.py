"""`stepwell import`: recorded traffic becomes steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stepwell.cli import _options as options
from stepwell.errors import SettingsError

if TYPE_CHECKING:
    from stepwell.cli._import_delivery import Delivery
    from stepwell.cli._import_report import Report
    from stepwell.cli._settings import Settings
    from stepwell.warehouse import Redactor

_SAID = 20
"""Quarantined exchanges that are named one by one."""


def import_(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Files, and folders of them, in whatever format they are")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would become of it; needs no warehouse, writes nothing")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per exchange on stdout")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when something cannot be read or is quarantined")
    ] = False,
    trajectory: Annotated[
        str | None, typer.Option("--trajectory", metavar="ID", help="All of it is this one rollout, now complete")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="ID", help="The rollouts of one sampling round that are compared")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="ID", help="The task, the same across epochs")
    ] = None,
    split: Annotated[Literal["train", "eval"] | None, typer.Option("--split", help="What the steps are for")] = None,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Bring recorded traffic into the warehouse, as if the proxy had captured it.

    Reads HAR files, mitmproxy flow dumps and JSON exchanges (`{"request": {"method", "url", "headers", "body"}, "response":
    {"status", "headers", "body" or "body_b64"}}`: one object, a list, or one per line), gzipped or not, told apart by their
    content. Importing the same twice adds nothing. What cannot be parsed is quarantined and counted. What is printed went
    through the rules of redaction, as what is stored does.

    Example: `stepwell import recordings/ session.har --dry-run`
    """
    from stepwell.cli._settings import load_settings
    from stepwell.warehouse import Redactor

    for path in paths:
        if not path.exists():
            raise SettingsError(f"there is no {path}")
    facts = {"trajectory_id": trajectory, "prompt_id": prompt, "group_id": group, "split": split}
    given = {name: value for name, value in facts.items() if value is not None}
    settings = load_settings(config, data=data, warehouse=warehouse)
    redactor = Redactor(settings.redact)
    with nullcontext() if dry_run else _delivery(settings, given) as delivery:
        report = _read(paths, delivery, redactor, as_json=as_json)
        if delivery is not None:
            delivery.finish()
    print(report, file=sys.stderr if as_json else sys.stdout)
    failed = strict and (report.quarantined or report.unreadable)
    if failed or (report.unreadable and not report.exchanges):
        raise typer.Exit(1)


@contextmanager
def _delivery(settings: Settings, facts: dict[str, str]) -> Iterator[Delivery]:
    from stepwell.cli._import_delivery import Delivery

    with Delivery(settings, facts) as delivery:
        yield delivery


def _read(paths: list[Path], delivery: Delivery | None, redactor: Redactor, *, as_json: bool) -> Report:
    """Take in every exchange; says on stderr what cannot be read."""
    import orjson

    from stepwell.cli._import_files import Trouble, files_in, read_file
    from stepwell.cli._import_report import Report

    report = Report(redactor)
    for path in files_in(paths):
        report.files += 1
        for found in read_file(path):
            if isinstance(found, Trouble):
                report.unreadable += 1
                _say(f"{found.path}: {report.redacted(found.reason)}")
                continue
            before = report.quarantined
            line = report.take(found)
            if delivery is not None and found.generation:
                delivery.add(found)
            if as_json:
                sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
            if before < report.quarantined <= _SAID:
                _say(f"{path}: {found.name} is quarantined: {line['reason']}")
    sys.stdout.buffer.flush()
    return report


def _say(text: str) -> None:
    print(f"stepwell: {' '.join(text.split())}", file=sys.stderr, flush=True)  # noqa: T201
