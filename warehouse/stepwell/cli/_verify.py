"""`stepwell verify`: is the warehouse whole?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import _options as options

if TYPE_CHECKING:
    from stepwell.warehouse import Report


def verify(
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every byte, too, restore every step, and compare it with its hash")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: ok, findings, tables, …")] = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Check that everything in the warehouse is there and fits together. Changes nothing.

    Files, ledgers, commits, keys, what steps are stored as differences to, payloads, datasets and their fingerprints; files that nothing
    refers to. One line per finding: what, where, what to do. The rest is checked, whatever is damaged. Exits with 1 when something is.
    """
    from stepwell.cli._opened import opened
    from stepwell.cli._settings import load_settings
    from stepwell.errors import SettingsError
    from stepwell.warehouse import verify as check

    settings = load_settings(config, data=data, warehouse=warehouse)
    report = check(settings.warehouse_uri, settings.store.storage_options(), deep=deep)
    if not report.tables:
        opened(settings)  # says why: nothing there, no credentials, another schema
        raise SettingsError(f"no table of {settings.warehouse_uri} can be read")
    if as_json:
        print(json.dumps(_as_json(report)))  # noqa: T201
    else:
        for line in _lines(report):
            print(line)  # noqa: T201
    if not report.ok:
        raise typer.Exit(1)


def _as_json(report: Report) -> dict[str, Any]:
    return {"ok": report.ok, **asdict(report)}


def _lines(report: Report) -> list[str]:
    from stepwell.cli._maintain import size

    lines = [str(finding) for finding in report.findings]
    for name, said in report.tables.items():
        seen = "" if said.visible in (None, said.rows) else f", {said.visible} committed"
        lines.append(
            f"ok    {name:<13} {said.rows} rows{seen}, {said.fragments} fragments, {said.versions} versions; "
            f"{size(said.bytes)}, of which {size(said.bytes_referenced)} are in use"
        )
    read = f", {report.steps_read} steps restored" if report.deep else ""
    faults = sum(finding.wrong for finding in report.findings)
    lines.append(
        f"{'whole' if report.ok else f'{faults} faults'}: commit {report.commit}, {report.datasets} datasets{read}"
    )
    return lines
