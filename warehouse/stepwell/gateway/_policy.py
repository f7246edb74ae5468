"""`PUT /policy`, `GET /policy`: which weights answer, as their trainer says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from stepwell.exchange import Declared
from stepwell.gateway._body import parsed, read_body
from stepwell.gateway._openapi import RESPONSES, refusal
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._take import Way
from stepwell.sdk.records import checked

__all__ = ["Policy", "policy_routes"]

_MOST_BYTES = 64 << 10


class Policy(BaseModel):
    """A policy and the version of it that answers from now on."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=256)]
    version: Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)]
    """Ordered: a later one is greater."""
    label: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The trainer's own word for it (a checkpoint's name, a step)."""


_DECLARED = {
    "type": "object",
    "required": ["name", "version", "label", "at"],
    "properties": {
        "name": {"type": "string"},
        "version": {"type": "integer", "format": "int64"},
        "label": {"type": ["string", "null"]},
        "at": {"type": "string", "format": "date-time"},
    },
}
_OK: dict[int | str, dict[str, Any]] = {
    200: {"description": "The policy in force.", "content": {"application/json": {"schema": _DECLARED}}}
}


def policy_routes(way: Way) -> APIRouter:
    """Steps and calls that say nothing of their policy carry what was declared when they began and when they ended."""
    router = APIRouter(tags=["policy"])
    takes = {"requestBody": {"required": True, "content": {"application/json": {"schema": Policy.model_json_schema()}}}}
    refusals: dict[int | str, dict[str, Any]] = {
        **{code: RESPONSES[code] for code in (400, 413, 415)},
        422: refusal("A bad field."),
        503: refusal("The disk cannot keep it: come again after Retry-After."),
    }

    @router.put("/policy", openapi_extra=takes, responses=_OK | refusals)
    async def put_policy(request: Request) -> Response:
        """Declare the policy that answers from now on. The same again changes nothing."""
        body = await read_body(request, _MOST_BYTES)
        said = checked(Policy, parsed(body.plain))
        policy = Declared(said.name, said.version, said.label)
        return _shown(*await asyncio.to_thread(way.declarations.declare, policy))

    @router.get("/policy", responses=_OK | {404: refusal("None was declared.")})
    async def get_policy() -> Response:
        """The policy that was declared last."""
        known = way.declarations.now()
        if known is None:
            raise Problem(404, "no policy was declared: PUT /api/v1/policy with name and version")
        return _shown(*known)

    return router


def _shown(policy: Declared, at_ns: int) -> Response:
    at = datetime.fromtimestamp(at_ns / 1e9, UTC)
    return json_response({"name": policy.name, "version": policy.version, "label": policy.label, "at": at})
