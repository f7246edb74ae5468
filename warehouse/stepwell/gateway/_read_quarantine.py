"""`GET /quarantine`, `GET /quarantine/{exchange_id}`: calls that could not be read, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.gateway._cursor import literal
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_exchange import Cut, as_wire
from stepwell.gateway._read_rows import FOUND, READ, Cursor, Filter, KeyColumns, Limit, Order, Rows, equal, not_found

__all__ = ["quarantine_routes"]

_QUARANTINE = """SELECT exchange_id, reason, dialect, trajectory_id, coalesce(octet_length(request_body), 0) AS request_bytes,
    coalesce(octet_length(response_body), 0) AS response_bytes, created_at, "commit", producer, sequence FROM quarantine"""
_KEY: KeyColumns = {"commit": int, "producer": str, "sequence": int, "exchange_id": str}

Among = Annotated[str | None, Query(min_length=1, max_length=256, description="Words that the reason contains.")]


def quarantine_routes(rows: Rows) -> APIRouter:
    """Newest first."""
    router = APIRouter(tags=["read"])

    @router.get("/quarantine", responses=READ)
    def get_quarantine(
        limit: Limit = 50,
        cursor: Cursor = None,
        order: Order = "newest",
        dialect: Filter = None,
        trajectory_id: Filter = None,
        reason: Among = None,
    ) -> Response:
        """Calls and records that could not be read, with the reason; those that were read since are not among them."""
        where = equal(dialect=dialect, trajectory_id=trajectory_id)
        where += [] if reason is None else [f"contains(lower(reason), lower({literal(reason)}))"]
        return rows.page(_QUARANTINE, where, _KEY, cursor=cursor, limit=limit, order=order)

    @router.get("/quarantine/{exchange_id:path}", responses=FOUND)
    def get_quarantined(exchange_id: str, max_bytes: Cut = 256 << 10) -> Response:
        """One of them, with its bytes: as text where they are text, else in base64."""
        found = rows.ask(f"SELECT * FROM quarantine WHERE exchange_id = {literal(exchange_id)}")
        if not found:
            raise not_found("quarantined call", exchange_id)
        return json_response(as_wire(found[0], max_bytes))

    return router
