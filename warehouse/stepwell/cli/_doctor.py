"""`stepwell doctor`: what is wrong here, and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from stepwell.cli import _options as options
from stepwell.cli._finding import Finding


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object: `ok`, and the list `checks`")] = False,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Look at everything that capture needs, and say what to do about what is missing.

    Settings, data folder, token, certificate, ports, processes, whether the proxy decrypts, what waits in the spools, what was lost or
    quarantined, which hosts pass undecrypted that look like LLM endpoints, and which clients go round the proxy. Changes
    nothing, and asks nobody but this machine and the warehouse. Exits with 1 when something is broken.
    """
    found: list[Finding] = []
    for finding in _findings(config, data, warehouse):
        found.append(finding)
        if not as_json:
            print(finding, flush=True)  # noqa: T201
    broken = any(finding.status == "bad" for finding in found)
    if as_json:
        print(json.dumps({"ok": not broken, "checks": [asdict(finding) for finding in found]}))  # noqa: T201
    if broken:
        raise typer.Exit(1)


def _findings(config: Path | None, data: Path | None, warehouse: str | None) -> Iterator[Finding]:
    from stepwell.cli._doctor_checks import local_findings
    from stepwell.cli._doctor_stack import stack_findings
    from stepwell.cli._doctor_store import store_findings
    from stepwell.cli._finding import bad, ok
    from stepwell.cli._settings import load_settings
    from stepwell.errors import SettingsError

    try:
        settings = load_settings(config, data=data, warehouse=warehouse)
    except SettingsError as error:
        yield bad("settings", str(error), "nothing starts until this is set right")
        return
    yield ok("settings", f"readable; data {settings.data}")
    yield from local_findings(settings)
    yield from stack_findings(settings)
    yield from store_findings(settings)
