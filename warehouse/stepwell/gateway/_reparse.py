"""`POST /quarantine/{exchange_id}/reparse`: a call that could not be read, read once more by the version that runs.

It is parsed here first, to say what comes of it; when that works, its bytes go into the gateway's spool like a submission, with the id that
the call had. Ingest takes its steps in once, however often it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from starlette.responses import Response

from stepwell.errors import InvalidRecord
from stepwell.exchange import REQUEST, RESPONSE, NoStep, Unparseable, claim_of, exchange_from, parse
from stepwell.gateway._about import VERSION
from stepwell.gateway._cursor import literal
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_rows import FOUND, Rows, not_found
from stepwell.spool import Entry, Record

__all__ = ["reparse_routes"]

_CALL = frozenset({"dialect", "method", "url"})
"""What a request's head has one of, if it is one."""


def reparse_routes(rows: Rows, keeper: Keeper) -> APIRouter:
    """For curators."""
    router = APIRouter(tags=["quarantine"])

    @router.post("/quarantine/{exchange_id:path}/reparse", responses=FOUND)
    async def post_reparse(exchange_id: str) -> Response:
        """Read a quarantined call again. `outcome`: `accepted` (its steps come with the next commit), `no_step` (it is no generation, and
        leaves quarantine), `unreadable` (with the reason; it stays), or `no_call` (nothing that could be parsed is kept of it)."""
        row = await run_in_threadpool(_quarantined, rows, exchange_id)
        records = _records(row)
        if records is None:
            return json_response(
                {"exchange_id": exchange_id, "outcome": "no_call", "reason": row["reason"], "steps": []}
            )
        answer = {"exchange_id": exchange_id, **await run_in_threadpool(_tried, records)}
        if answer["outcome"] in ("accepted", "no_step"):
            [new] = set(await keeper.keep(_entries(records, exchange_id)))
            answer["duplicate"] = not new
        return json_response(answer)

    return router


def _quarantined(rows: Rows, exchange_id: str) -> dict[str, Any]:
    found = rows.ask(f"SELECT * FROM quarantine WHERE exchange_id = {literal(exchange_id)}")
    if not found:
        raise not_found("quarantined call", exchange_id)
    return found[0]


def _records(row: Mapping[str, Any]) -> tuple[Record, Record] | None:
    """The request and its answer as they were in the spool; None for what was no call, or is not kept whole."""
    request, response = row["request_head"], row["response_head"]
    if request is None or response is None or row["request_body"] is None or row["response_body"] is None:
        return None
    try:
        said = orjson.loads(request)
    except ValueError:
        return None
    if not isinstance(said, dict) or not _CALL & said.keys():
        return None
    id_, at = row["exchange_id"], int(row["created_at"].timestamp() * 1e9)
    return (
        Record(1, id_, REQUEST, None, at, request.encode(), row["request_body"]),
        Record(2, f"{id_}.response", RESPONSE, id_, at, response.encode(), row["response_body"]),
    )


def _tried(records: tuple[Record, Record]) -> dict[str, Any]:
    """What parsing gives, as ingest does it."""
    try:
        exchange = exchange_from(*records)
        claim_of(exchange)
        steps = [step.step_id for step in parse(exchange)]
    except NoStep:
        return {"outcome": "no_step", "reason": None, "steps": []}
    except (Unparseable, InvalidRecord, ValueError, KeyError, TypeError, AttributeError) as error:  # a damaged head
        return {"outcome": "unreadable", "reason": str(error), "steps": []}
    return {"outcome": "accepted", "reason": None, "steps": steps}


def _entries(records: tuple[Record, Record], exchange_id: str) -> list[Entry]:
    """The same under an id of its own, which this version uses once: the spool may still have the one that it came with."""
    request, response = records
    id_ = f"again.{VERSION}.{exchange_id}"
    try:
        head = orjson.dumps({**orjson.loads(request.head), "again": exchange_id})
    except TypeError as error:
        raise Problem(422, f"the call {exchange_id!r:.300} has a head that cannot be written: {error}") from error
    return [
        Entry(id_, REQUEST, head, request.body, opens=True),
        Entry(f"{id_}.response", RESPONSE, response.head, response.body, ref=id_),
    ]
