"""The endpoints that take records in."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stepwell.gateway._body import parsed, read_body
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._metrics import Metrics
from stepwell.gateway._problems import Problem, json_response, problem_response
from stepwell.gateway._records import Checked, Kind, check
from stepwell.sdk.records import Feedback, Step, Trajectory

__all__ = ["submit_routes"]

_ENDING = frozenset({"state", "reason", "metadata", "at", "prompt_id", "group_id", "split", "policy_version", "marks"})


def submit_routes(keeper: Keeper, config: GatewayConfig, metrics: Metrics) -> APIRouter:
    """`POST /steps`, `/feedback`, `/trajectories`, `/trajectories/{id}/complete`.

    Each record is answered for on its own; an answer means that the disk has it.
    """
    router = APIRouter(tags=["submit"])

    async def submit(kind: Kind, request: Request) -> Response:
        body = await read_body(request, config.max_body_bytes)
        batch = await asyncio.to_thread(_check_body, kind, body, config.max_batch, keeper)
        return await _keep(kind, batch)

    async def _keep(kind: Kind, batch: Sequence[Checked]) -> Response:
        entries = [item.entry for item in batch if item.entry is not None]
        news = iter(await keeper.keep(entries) if entries else [])
        items = [_result(item, next(news) if item.entry is not None else False) for item in batch]
        metrics.count(kind, items)
        return _answer(items)

    @router.post("/steps", openapi_extra=_takes(Step), responses=_RESPONSES)
    async def post_steps(request: Request) -> Response:
        """One step, or an array of steps."""
        return await submit("step", request)

    @router.post("/feedback", openapi_extra=_takes(Feedback), responses=_RESPONSES)
    async def post_feedback(request: Request) -> Response:
        """One piece of feedback, or an array. The target need not be known yet."""
        return await submit("feedback", request)

    @router.post("/trajectories", openapi_extra=_takes(Trajectory), responses=_RESPONSES)
    async def post_trajectories(request: Request) -> Response:
        """Open, complete or fail one trajectory, or an array of them."""
        return await submit("trajectory", request)

    @router.post("/trajectories/{trajectory_id}/complete", openapi_extra=_ENDS, responses=_RESPONSES)
    async def complete_trajectory(trajectory_id: str, request: Request) -> Response:
        """End a trajectory: `completed` unless the body says `{"state": "failed", "reason": …}`."""
        body = await read_body(request, config.max_body_bytes)
        ending = await asyncio.to_thread(_ending, trajectory_id, body)
        return await _keep("trajectory", [await asyncio.to_thread(check, "trajectory", ending, keeper.marks)])

    return router


def _check_body(kind: Kind, body: bytes, most: int, keeper: Keeper) -> list[Checked]:
    value = parsed(body)
    if not isinstance(value, dict | list):
        raise Problem(400, "the body must be an object or an array of objects")
    records = value if isinstance(value, list) else [value]
    if len(records) > most:
        raise Problem(413, f"{len(records)} records in one request; at most {most} are taken (gateway.max_batch)")
    marks = functools.cache(keeper.marks)  # every trajectory that ends in this request ends at the same moment
    return [check(kind, record, marks) for record in records]


def _ending(trajectory_id: str, body: bytes) -> dict[str, Any]:
    said = parsed(body) if body.strip() else {}
    if not isinstance(said, dict):
        raise Problem(400, "the body must be an object, or be left out")
    for name in said:
        if name not in _ENDING:
            raise Problem(422, f"{name}: is no field of the end of a trajectory", field=name)
    if said.get("state", "completed") not in ("completed", "failed"):
        raise Problem(422, "state: a trajectory ends as 'completed' or 'failed'", field="state")
    return {"state": "completed", **said, "trajectory_id": trajectory_id}


def _result(item: Checked, new: bool) -> dict[str, Any]:
    if item.error is not None:
        return {"id": item.id, "status": "refused", "field": item.error.field, "message": item.error.reason}
    return {"id": item.id, "status": "accepted" if new else "duplicate"}


def _answer(items: list[dict[str, Any]]) -> Response:
    refused = [item for item in items if item["status"] == "refused"]
    if items and len(refused) == len(items):
        first = refused[0]
        detail = f"{first['field']}: {first['message']}" if first["field"] else str(first["message"])
        return problem_response(422, detail, items=items)
    return json_response({"items": items})


def _takes(model: type[Step] | type[Feedback] | type[Trajectory]) -> dict[str, Any]:
    one = model.model_json_schema()
    schema = {"oneOf": [one, {"type": "array", "items": one}]}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _ends_schema() -> dict[str, Any]:
    properties = Trajectory.model_json_schema()["properties"]
    schema = {"type": "object", "properties": {name: properties[name] for name in sorted(_ENDING)}}
    return {"requestBody": {"required": False, "content": {"application/json": {"schema": schema}}}}


_ENDS = _ends_schema()
_RESULTS = {
    "type": "object",
    "required": ["items"],
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "status"],
                "properties": {
                    "id": {"type": ["string", "null"]},
                    "status": {"enum": ["accepted", "duplicate", "refused"]},
                    "field": {"type": "string"},
                    "message": {"type": "string"},
                },
            },
        }
    },
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "At least one record was taken.", "content": {"application/json": {"schema": _RESULTS}}},
    413: {"description": "The body or the batch is too large."},
    422: {"description": "Every record was refused; `items` says why."},
    503: {"description": "The spool is full: come again after Retry-After."},
}
