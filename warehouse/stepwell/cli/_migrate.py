"""`stepwell migrate`: bring an older warehouse to this version's schema."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from stepwell.cli import _options as options
from stepwell.errors import SettingsError


def migrate(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which tables are older, and change nothing")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: the list `tables`")] = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Write a warehouse that an older version made as this version reads it.

    Stop `stepwell up` first, on every machine that writes the warehouse. It takes as much room again until `stepwell maintain` has
    removed what was there before. Interrupted, it goes on when it is started again; a warehouse that is up to date is left alone.
    """
    from stepwell.cli._settings import load_settings
    from stepwell.spool import ProcessLock
    from stepwell.warehouse import migrate as run

    settings = load_settings(config, data=data, warehouse=warehouse)
    lock = ProcessLock(settings.data / "ingest.lock")
    if settings.data.is_dir() and not lock.acquire(0):
        raise SettingsError(f"an ingest works on {settings.data}: stop it before the warehouse is migrated")
    try:
        say = (lambda _: None) if as_json else _say
        done = run(settings.warehouse_uri, settings.store.storage_options(), dry_run=dry_run, say=say)
    finally:
        lock.release()
    if as_json:
        print(json.dumps({"dry_run": dry_run, "tables": done}))  # noqa: T201
    elif dry_run and done:
        print(f"of an older schema: {', '.join(done)}")  # noqa: T201
    elif not done:
        print("up to date")  # noqa: T201


def _say(name: str) -> None:
    print(f"{name} is done", flush=True)  # noqa: T201
