"""`POST /feedback/bulk`, `POST /feedback/undo/{id}`, `GET /feedback/bulk`: one judgement of many steps, and taking it back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from stepwell.gateway._body import Body, parsed, read_body
from stepwell.gateway._bulk_store import Judgement, Judgements
from stepwell.gateway._bulk_work import MOST, Bulk
from stepwell.gateway._made_datasets import Chosen
from stepwell.gateway._openapi import RESPONSES, refusal, takes_one
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_rows import READ
from stepwell.gateway._records import NewId
from stepwell.gateway._take import Way
from stepwell.sdk.records import checked

__all__ = ["bulk_routes"]

_MOST_BYTES = 16 << 20
_MOST_UNDO_BYTES = 4096
Id = Annotated[str, Field(min_length=1, max_length=256)]


class ManySteps(BaseModel):
    """Which steps, and what is said of each of them: `feedback` without its target and its id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    filter: Chosen | None = None
    """All that this selects at this moment; it must say something."""
    ids: list[Id] | None = Field(None, min_length=1, max_length=MOST)
    """Or these steps, as far as they are there."""
    feedback: dict[str, Any]
    """With its author."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 10_000
    """Where more steps are selected, none is judged."""
    expect: Annotated[int, Field(ge=0)] | None = None
    """How many steps whoever judges saw; where it is another number, none is judged."""


class Undo(BaseModel):
    """Who takes back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    author: Id | None = None


def bulk_routes(way: Way, listed: Listed, judgements: Judgements) -> APIRouter:
    """The events are like any others: history is kept, and what was said by others or at other times stands."""
    router, bulk = APIRouter(tags=["curate"]), Bulk(way, listed, judgements)
    refusals: dict[int | str, dict[str, Any]] = {
        **{code: RESPONSES[code] for code in (400, 409, 413, 415, 429, 503)},
        422: refusal(
            "Nothing is judged: the feedback or a filter cannot be what it is, or too many steps are selected."
        ),
    }

    @router.post("/feedback/bulk", openapi_extra=takes_one(ManySteps, keyed=True), responses=refusals)
    async def judge(request: Request) -> Response:
        """Say the same of all steps that a filter selects at this moment; `undo` names it."""
        body = await read_body(request, _MOST_BYTES)

        async def work(new_id: NewId) -> Response:
            said = checked(ManySteps, await anyio.to_thread.run_sync(_parsed, body))
            return json_response(
                await bulk.judge(said.feedback, said.filter, said.ids, said.limit, said.expect, new_id)
            )

        return await way.once.answer(request, body, work)

    @router.post(
        "/feedback/undo/{judgement_id}",
        openapi_extra=takes_one(Undo, required=False, keyed=True),
        responses=refusals | {404: refusal("There is none of this id, or not any more.")},
    )
    async def undo(judgement_id: str, request: Request) -> Response:
        """Take back exactly the events of one judgement: what was said before them counts again."""
        body = await read_body(request, _MOST_UNDO_BYTES)

        async def work(_: NewId) -> Response:
            said = checked(Undo, _parsed(body) if body.plain.strip() else {})
            return json_response(await bulk.undo(judgement_id, said.author))

        return await way.once.answer(request, body, work)

    @router.get("/feedback/bulk", responses=READ)
    def get_judgements(limit: Annotated[int, Query(ge=1, le=500)] = 50) -> Response:
        """The newest judgements of many steps, of the last 90 days."""
        return json_response({"items": [_shown(one) for one in judgements.newest(limit)]})

    return router


def _parsed(body: Body) -> Any:
    return parsed(body.plain)


def _shown(one: Judgement) -> dict[str, Any]:
    undone = None if one.undone is None else datetime.fromtimestamp(one.undone, UTC)
    at = datetime.fromtimestamp(one.at, UTC)
    return {"undo": one.id, "at": at, "feedback": one.said, "steps": one.count, "undone_at": undone}
