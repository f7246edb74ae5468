"""The application: the rooms' endpoints under one guard and one form of error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from stepwell.errors import SettingsError
from stepwell.gateway._about import VERSION, about_routes, metrics_routes
from stepwell.gateway._annotate import annotation_routes
from stepwell.gateway._auth import Guard
from stepwell.gateway._bulk import bulk_routes
from stepwell.gateway._bulk_store import Judgements
from stepwell.gateway._clients import Clients, Counted
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._dashboard import dashboard_routes
from stepwell.gateway._declarations import Declarations
from stepwell.gateway._flush import flush_routes
from stepwell.gateway._grants import Grants
from stepwell.gateway._judged import Judged
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._listing import Listing
from stepwell.gateway._memory import Memory
from stepwell.gateway._metrics import Metrics
from stepwell.gateway._once import Once
from stepwell.gateway._openapi import Described
from stepwell.gateway._otlp import otlp_routes
from stepwell.gateway._policy import policy_routes
from stepwell.gateway._prefix_tree import prefix_tree_routes
from stepwell.gateway._preview import preview_routes
from stepwell.gateway._problems import install
from stepwell.gateway._rate import RateLimit
from stepwell.gateway._read import read_routes
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_rows import Rows
from stepwell.gateway._ready import ready_routes
from stepwell.gateway._stream import Streams, stream_routes
from stepwell.gateway._submit import submit_routes
from stepwell.gateway._system import system_routes
from stepwell.gateway._take import Way
from stepwell.gateway._tokens import Tokens
from stepwell.gateway._views import Views, view_routes
from stepwell.gateway._warehouse import OpenWarehouse, WarehouseView, as_view
from stepwell.gateway._workers import Workers
from stepwell.spool import SpoolWriter

__all__ = ["create_app"]

PREFIX = "/api/v1"


def create_app(
    *,
    writer: SpoolWriter,
    spool_folder: Path,
    token: str,
    warehouse: WarehouseView | OpenWarehouse,
    config: GatewayConfig | None = None,
    memory: Memory | None = None,
    policy: Path | None = None,
    tokens: Tokens | None = None,
    views: Path | None = None,
    judgements: Judgements | None = None,
    settings: Mapping[str, Any] | None = None,
) -> FastAPI:
    """The gateway as an ASGI application.

    Args:
        writer: takes what is submitted; opened and closed by the caller.
        spool_folder: the folder of every producer's spool, the writer's own among them.
        token: the installation's, which may do everything; must not be empty.
        warehouse: what is read from, or how to open it; opened at the first read, and again after a failure.
        config: limits and host names; where to listen is the server's business.
        memory: what was submitted lately; opened and closed by the caller. Left out, it lasts as long as the application.
        policy: the file of declared policies; left out, they last as long as the application.
        tokens: further ones, with scopes.
        judgements: those of many steps at once; closed by the caller. Left out, they last as long as the application.
        views: the file of saved views; left out, they last as long as the application.
        settings: those of the whole installation, to be shown without what may be secret.

    Raises:
        SettingsError: the token is empty.
    """
    if not token:
        raise SettingsError("the gateway needs a token: without one every program and web page here could write to it")
    config = config or GatewayConfig()
    keeper, metrics, view = Keeper(writer, spool_folder), Metrics(spool_folder), as_view(warehouse)
    memory, streams, workers, clients = memory or Memory(), Streams(), Workers(view), Clients()
    listed = Listed(Rows(view), Listing(view))
    way = Way(keeper, config, metrics, memory, Declarations(policy), Once(memory))
    app = Described(
        title="Stepwell gateway",
        version=VERSION,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a redirected POST is a lost POST with many clients
    )
    app.state.streams = streams  # for the server, which knows when all is to end
    app.state.listing = listed.listing  # likewise, when it has begun
    install(app)
    for router in (
        about_routes(keeper, config),
        ready_routes(keeper, config, view),
        submit_routes(way),
        policy_routes(way),
        flush_routes(keeper, view),
        read_routes(listed, keeper, config, clients),
        view_routes(Views(views)),
        system_routes(keeper, config, view, tokens, settings),
        stream_routes(view, streams),
        annotation_routes(listed, Judged(view, listed, keeper)),
        bulk_routes(way, listed, judgements or Judgements()),
        preview_routes(workers, listed),
        prefix_tree_routes(workers),
    ):
        app.include_router(router, prefix=PREFIX)
    app.include_router(metrics_routes(metrics))
    app.include_router(otlp_routes(way))  # where exporters look for it
    app.include_router(dashboard_routes())
    app.add_middleware(Counted, clients=clients)
    if config.rate_in_force:
        app.add_middleware(RateLimit, rate=config.rate_in_force)
    hosts = [config.host, *config.allowed_hosts]
    grants = None if tokens is None else Grants(tokens)
    app.add_middleware(Guard, token=token, hosts=hosts, grants=grants, local_only=not config.is_local)
    return app
