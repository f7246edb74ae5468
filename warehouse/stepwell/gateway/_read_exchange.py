"""Calls as they crossed the wire, as far as they are kept: of a step, and of what could not be read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.exchange import decode
from stepwell.gateway._cursor import literal
from stepwell.gateway._parts import PartRoute
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_rows import FOUND, Rows

__all__ = ["Cut", "as_wire", "exchange_routes"]

Cut = Annotated[
    int, Query(ge=1, le=8 << 20, description="Most bytes of either body, after content codings are undone.")
]
_MOST = 64 << 20


def exchange_routes(rows: Rows) -> APIRouter:
    """`GET /steps/{step_id}/exchange`."""
    router = APIRouter(tags=["read"], route_class=PartRoute)

    @router.get("/steps/{step_id:path}/exchange", responses=FOUND)
    def get_exchange(step_id: str, max_bytes: Cut = 256 << 10) -> Response:
        """The call that a captured step was made of, where it was kept (`ingest.raw`). Credentials are in none."""
        step = rows.one("SELECT step_id FROM steps", "step", step_id)
        call = step["step_id"].rpartition(".")[0]  # not its `call_id`, which attempts share
        found = rows.ask(f"SELECT * FROM exchanges WHERE exchange_id = {literal(call)}") if call else []
        if not found:
            detail = (
                f"the call of step {step_id!r:.300} is not kept: by default only calls that failed are, and for 14 days; "
                'ingest.raw = "all" keeps every one, ingest.raw_days says how long'
            )
            raise Problem(404, detail, setting="ingest.raw")
        return json_response(as_wire(found[0], max_bytes))

    return router


def as_wire(row: Mapping[str, Any], most: int) -> dict[str, Any]:
    """A row of `exchanges`, its bodies as text where they are, and cut to so many bytes."""
    plain = {name: value for name, value in row.items() if not name.startswith(("request_", "response_"))}
    return {**plain, **{side: _side(row, side, most) for side in ("request", "response")}}


def _side(row: Mapping[str, Any], side: str, most: int) -> dict[str, Any]:
    head, stored = _object(row[f"{side}_head"]), row[f"{side}_body"]
    if stored is None:
        return {"head": head, "body": None, "bytes": None, "is_whole": False}
    coding = ", ".join(value for name, value in _headers(head) if name.lower() == "content-encoding")
    body = decode(stored, coding, _MOST)
    shown = body.body[:most]
    try:
        text = {"body": shown.decode("utf-8") if len(shown) == len(body.body) else shown.decode("utf-8", "ignore")}
    except UnicodeDecodeError:
        text = {"body_b64": base64.b64encode(shown).decode()}
    return {
        "head": head,
        **text,
        "bytes": len(body.body),
        "is_whole": len(shown) == len(body.body) and body.problem is None,
        **({} if body.problem is None else {"problem": body.problem}),
    }


def _headers(head: Any) -> list[tuple[str, str]]:
    pairs = head.get("headers") if isinstance(head, dict) else None
    return [(str(pair[0]), str(pair[1])) for pair in pairs or () if isinstance(pair, list) and len(pair) == 2]


def _object(text: str | None) -> Any:
    """What a head says; as the text that it is where that is no JSON."""
    try:
        return None if text is None else orjson.loads(text)
    except ValueError:
        return text
