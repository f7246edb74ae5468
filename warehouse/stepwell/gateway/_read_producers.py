"""`GET /producers`: what feeds the warehouse."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.gateway._clients import Clients
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._problems import json_response
from stepwell.gateway._spools import as_json, ingest_runs, producers, totals
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["producer_routes"]


def producer_routes(keeper: Keeper, clients: Clients, warehouse: LazyWarehouse) -> APIRouter:
    """Spools and clients."""
    router = APIRouter(tags=["read"])

    @router.get("/producers")
    def get_producers() -> Response:
        """The spools on this machine (proxies, this gateway, imports), and who submitted to this gateway since it started."""
        found = producers(keeper.folder, warehouse)
        return json_response(
            {
                "items": [as_json(one) for one in found],
                "totals": totals(found),
                "ingest_alive": ingest_runs(keeper.folder),
                "clients": clients.list(),
            }
        )

    return router
