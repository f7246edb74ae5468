"""`stepwell maintain`: keep the warehouse small and quick."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepwell.cli import _options as options

if TYPE_CHECKING:
    from stepwell.warehouse import Maintenance


def maintain(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what there is to do, and do nothing")] = False,
    keep: Annotated[
        float | None,
        typer.Option(
            "--keep",
            min=0,
            metavar="SECONDS",
            help="Remove versions of tables that were superseded longer ago; readers that began before then fail",
            show_default="ingest.keep_versions, an hour",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object: tables, payloads, datasets, raw, litter, errors")
    ] = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Make many small files few, extend indices, remove what nobody needs any more.

    Ingest does this by itself in the background; by hand it is for warehouses without one, and before measuring or copying. May run
    beside everything else. Versions of the warehouse and datasets stay readable. Exits with 1 when something could not be done.
    """
    from stepwell.cli._opened import opened
    from stepwell.cli._settings import load_settings

    settings = load_settings(config, data=data, warehouse=warehouse)
    seconds = settings.ingest.keep_versions if keep is None else keep
    said = opened(settings).maintain(keep=timedelta(seconds=seconds), keep_raw=settings.ingest.raw_age, dry_run=dry_run)
    if as_json:
        print(json.dumps(_as_json(said, dry_run=dry_run)))  # noqa: T201
    else:
        for line in _lines(said, dry_run=dry_run):
            print(line)  # noqa: T201
    if said.errors or any(done.error for done in said.tables.values()):
        raise typer.Exit(1)


def _as_json(said: Maintenance, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "tables": {name: asdict(done) for name, done in said.tables.items()},
        "payloads": said.payloads._asdict(),
        "datasets": said.datasets._asdict(),
        "raw": said.raw,
        "litter": said.litter,
        "errors": said.errors,
    }


def _lines(said: Maintenance, *, dry_run: bool) -> list[str]:
    would = "would " if dry_run else ""
    lines = [f"error  {error}" for error in said.errors]
    for name, done in said.tables.items():
        parts = [
            f"{done.fragments} fragments {'to merge' if dry_run else 'merged'}" if done.fragments else "",
            f"indices: {', '.join(done.indices)}" if done.indices else "",
            f"{done.versions} old versions, {size(done.removed)}, {would}go" if done.versions else "",
            f"error: {done.error}" if done.error else "",
        ]
        before, after = (size(number) for number in (done.before, done.after))
        lines.append(
            f"{name:<13} {before if dry_run else f'{before} → {after}'}  {'; '.join(filter(None, parts))}".rstrip()
        )
    gone = said.payloads
    if gone.unreferenced or gone.twice:
        lines.append(
            f"payloads: {gone.unreferenced} without a reference and {gone.twice} twice {would}go, {size(gone.size)}"
        )
    if said.datasets.datasets:
        lines.append(
            f"datasets that were never registered: {said.datasets.datasets}, {said.datasets.rows} rows {would}go"
        )
    if said.datasets.pins:
        lines.append(f"tags for datasets that are not registered: {said.datasets.pins} {would}go")
    if said.raw:
        lines.append(f"raw calls that are old enough: {said.raw} {would}go")
    if said.litter:
        lines.append(f"left by interrupted work: {len(said.litter)} objects {would}go")
    return lines


def size(number: int | None) -> str:
    """Bytes as people read them."""
    amount, unit = float(number or 0), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return "?" if number is None else f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
