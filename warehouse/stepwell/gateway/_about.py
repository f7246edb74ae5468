"""The endpoints about the gateway itself."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from starlette.responses import Response

from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._metrics import Metrics
from stepwell.gateway._problems import json_response
from stepwell.spool import SpoolReader, read_cursor

__all__ = ["about_routes", "metrics_routes"]

VERSION = version("stepwell")


def about_routes(keeper: Keeper, config: GatewayConfig) -> APIRouter:
    """`GET /health` (no token asked) and `GET /version`."""
    router = APIRouter(tags=["about"])

    @router.get("/health")
    def health() -> Response:
        """Whether the gateway lives, and how its own spool is doing."""
        spool = keeper.writer.spool
        with SpoolReader(spool.path) as reader:
            last, committed, lost = reader.last(), read_cursor(keeper.folder, reader.producer), reader.lost()
        state = {
            "producer": spool.producer,
            "last": last,
            "committed": committed,
            "lag": max(0, last - committed),
            "lost": lost,
            "bytes": spool.bytes,
            "max_bytes": config.max_spool_bytes,
            "pending_bytes": keeper.writer.pending,
        }
        return json_response({"status": "ok", "version": VERSION, "spool": state})

    @router.get("/version")
    def get_version() -> Response:
        """The version of Stepwell and of this interface."""
        return json_response({"version": VERSION, "api": "v1"})

    return router


def metrics_routes(metrics: Metrics) -> APIRouter:
    """`GET /metrics` for Prometheus (no token asked: it holds counts, and no names but producers')."""
    router = APIRouter(tags=["about"])

    @router.get("/metrics")
    def get_metrics() -> Response:
        """Counts in the text format of Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    return router
