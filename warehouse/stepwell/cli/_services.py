"""`stepwell proxy`, `gateway` and `ingest`: one process of the stack, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

from stepwell.cli import _options as options

_GATEWAY_DRAIN = 10.0
"""Seconds the gateway gives the requests under way when it is told to stop."""


def proxy(
    config: options.Config = None,
    data: options.Data = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port for agents that only know HTTPS_PROXY (0: any free one)"),
    ] = None,
    run_port: Annotated[
        int | None, typer.Option("--run-port", min=0, max=65535, help="Port that `stepwell run` uses (0: any free one)")
    ] = None,
    supervised: options.Supervised = False,
) -> None:
    """Run the capturing proxy alone, in the foreground.

    It relays HTTPS, untouched unless a route says otherwise, and records the calls to LLM hosts in the spool; every other host passes
    through undecrypted.
    """
    from stepwell.cli._process import one_process
    from stepwell.cli._settings import load_settings
    from stepwell.home import create_token, home_folder

    settings = load_settings(config, data=data, proxy={"port": port, "run_port": run_port})
    with one_process("proxy", settings.data, supervised=supervised, drain=settings.proxy.drain_seconds) as ready:
        from stepwell.proxy import run_proxy

        home = home_folder()
        run_proxy(settings.proxy, data=settings.data, home=home, token=create_token(home), ready=ready)


def gateway(
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port of the HTTP API (0: any free one)")
    ] = None,
    supervised: options.Supervised = False,
) -> None:
    """Run the HTTP API alone, in the foreground.

    It takes steps and feedback from the SDK and from services into the spool, and answers questions about the warehouse.
    """
    from stepwell.cli._process import one_process
    from stepwell.cli._settings import load_settings
    from stepwell.home import create_token, home_folder

    settings = load_settings(config, data=data, warehouse=warehouse, gateway={"port": port})
    with one_process("gateway", settings.data, supervised=supervised, drain=_GATEWAY_DRAIN) as ready:
        from stepwell.gateway import run_gateway

        home = home_folder()
        run_gateway(
            settings.gateway,
            data=settings.data,
            home=home,
            token=create_token(home),
            warehouse=settings.warehouse_uri,
            storage_options=settings.store.storage_options(),
            ready=ready,
            settings=settings.model_dump(mode="json"),
        )


def ingest(
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
    supervised: options.Supervised = False,
) -> None:
    """Run ingest alone, in the foreground.

    It reads the spools, parses and links what they hold, and brings it into the warehouse, exactly once. Of all that work on one
    warehouse, on whatever machine, one commits for the others and maintains it.
    """
    from stepwell.cli._process import one_process
    from stepwell.cli._settings import load_settings

    settings = load_settings(config, data=data, warehouse=warehouse)
    with one_process("ingest", settings.data, supervised=supervised, drain=settings.ingest.drain) as ready:
        from stepwell.warehouse import run_ingest

        run_ingest(
            settings.ingest,
            redact=settings.redact,
            data=settings.data,
            warehouse=settings.warehouse_uri,
            storage_options=settings.store.storage_options(),
            ready=ready,
        )
