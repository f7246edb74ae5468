"""The endpoints that take records in."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stepwell.gateway._arrow_rows import rows_in
from stepwell.gateway._body import ARROW, NDJSON, Body, parsed, records_in
from stepwell.gateway._events import Event, event_of
from stepwell.gateway._exchanges import SubmittedExchange, exchange_of
from stepwell.gateway._openapi import RESPONSES, takes, takes_fields
from stepwell.gateway._problems import Problem
from stepwell.gateway._records import Checked, Kind, NewId, record_of
from stepwell.gateway._rows import rows_of, with_entries
from stepwell.gateway._take import Look, Way
from stepwell.gateway._webhooks import Signatures, webhook_routes
from stepwell.sdk.records import Feedback, Step, Trajectory

__all__ = ["submit_routes"]

_ENDING = frozenset({"state", "reason", "metadata", "at", "prompt_id", "group_id", "split", "policy_version", "marks"})


def submit_routes(way: Way) -> APIRouter:
    """`POST /steps`, `/feedback`, `/trajectories`, `/trajectories/{id}/complete`, `/exchanges`, `/events`, `/webhooks/{source}`.

    Each record is answered for on its own; an answer means that the disk has it.
    """
    router = APIRouter(tags=["submit"])
    looks = _Looks(way)

    @router.post("/steps", openapi_extra=takes(Step, NDJSON, binary=ARROW), responses=RESPONSES)
    async def post_steps(request: Request) -> Response:
        """One step, an array of steps, one per line, or one per row of an Arrow IPC stream."""
        return await way.take("step", request, looks.steps, "json", "ndjson", "arrow", prepare=looks.prepare)

    @router.post("/feedback", openapi_extra=takes(Feedback, NDJSON), responses=RESPONSES)
    async def post_feedback(request: Request) -> Response:
        """One piece of feedback, or several. The target need not be known yet."""
        return await way.take("feedback", request, looks.records("feedback"), "json", "ndjson")

    @router.post("/trajectories", openapi_extra=takes(Trajectory, NDJSON), responses=RESPONSES)
    async def post_trajectories(request: Request) -> Response:
        """Open, complete or fail one trajectory, or several."""
        return await way.take("trajectory", request, looks.records("trajectory"), "json", "ndjson")

    @router.post("/trajectories/{trajectory_id}/complete", openapi_extra=takes_fields(_ENDS), responses=RESPONSES)
    async def complete_trajectory(trajectory_id: str, request: Request) -> Response:
        """End a trajectory: `completed` unless the body says `{"state": "failed", "reason": …}`."""
        return await way.take("trajectory", request, looks.ending(trajectory_id))

    @router.post("/exchanges", openapi_extra=takes(SubmittedExchange, NDJSON), responses=RESPONSES)
    async def post_exchanges(request: Request) -> Response:
        """Calls of a model that the client recorded: parsed like captured ones, into steps called `<exchange_id>.<choice>`."""
        return await way.take("exchange", request, looks.exchanges, "json", "ndjson")

    @router.post("/events", openapi_extra=takes(Event, NDJSON), responses=RESPONSES)
    async def post_events(request: Request) -> Response:
        """What users did with an answer (copied, edited, resolved, thumbs up, …), kept as feedback."""
        return await way.take("event", request, looks.events, "json", "ndjson")

    router.include_router(webhook_routes(way, Signatures(way.config.webhooks), looks.events))
    return router


class _Looks:
    """How each endpoint reads its body."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._most = way.config.max_batch

    def steps(self, body: Body, new_id: NewId) -> list[Checked]:
        if body.form == "arrow":
            return rows_in(body, self._most, new_id)
        records = records_in(body, self._most)
        return rows_of(records, new_id, booleans=b"true" in body.plain or b"false" in body.plain)

    def prepare(self, items: Sequence[Checked]) -> None:
        """Steps that are new get what is declared of their policy, and their entry."""
        with_entries(items, self._way.declarations)

    def records(self, kind: Kind) -> Look:
        def look(body: Body, new_id: NewId) -> list[Checked]:
            marks = functools.cache(self._way.keeper.marks)  # whatever ends in this request ends at the same moment
            return [record_of(kind, values, marks, new_id) for values in records_in(body, self._most)]

        return look

    def ending(self, trajectory_id: str) -> Look:
        def look(body: Body, new_id: NewId) -> list[Checked]:
            return [record_of("trajectory", _ending(trajectory_id, body.plain), self._way.keeper.marks, new_id)]

        return look

    def exchanges(self, body: Body, new_id: NewId) -> list[Checked]:
        one = partial(exchange_of, new_id=new_id, declarations=self._way.declarations)
        return [one(values) for values in records_in(body, self._most)]

    def events(self, body: Body, new_id: NewId) -> list[Checked]:
        return [event_of(values, new_id) for values in records_in(body, self._most)]


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


def _ends_schema() -> dict[str, Any]:
    properties = Trajectory.model_json_schema()["properties"]
    shown = {name: properties[name] for name in sorted(_ENDING)}
    shown["state"] = {"enum": ["completed", "failed"], "default": "completed"}
    return {"type": "object", "properties": shown, "additionalProperties": False}


_ENDS = _ends_schema()
