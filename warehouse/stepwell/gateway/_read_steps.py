"""`GET /steps`, `GET /steps/{step_id}`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.gateway._cursor import key_of, literal
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_rows import (
    FOUND,
    READ,
    Cursor,
    Filter,
    Limit,
    Rows,
    equal,
    listed,
    not_found,
    page_sql,
    with_json,
)
from stepwell.gateway._read_tree import lineage_of

__all__ = ["STEP", "STEP_KEY", "step_routes"]

Order = Annotated[Literal["newest", "oldest"], Query(description="In the order of commit; clocks are not trusted.")]
Version = Annotated[int | None, Query(ge=-(2**63), lt=2**63)]
Since = Annotated[int | None, Query(ge=0, lt=2**62, description="Only what later commits than this one brought.")]

STEP = """SELECT step_id, call_id, trajectory_id, prompt_id, group_id, split, parent_id, turn, status, finish_reason,
    trainable, untrainable_reason, superseded_by, side, policy, policy_version, model, source, dialect, prompt_length,
    input_tokens, output_tokens, step_reward, trajectory_reward, labels, drift, tool_error, refusal,
    started_at, finished_at, "commit", producer, sequence FROM steps"""
"""Steps without their tokens and texts."""
STEP_KEY = ("commit", "producer", "sequence", "step_id")
_KINDS = (int, str, int, str)

_WHOLE = "prompt_ids, messages, tools"
_JSON = ("messages", "tools", "response", "sampling", "usage", "metadata", "extra")


def step_routes(rows: Rows) -> APIRouter:
    """Plain functions: they block, so FastAPI runs them in threads."""
    router = APIRouter(tags=["read"])

    @router.get("/steps", responses=READ)
    def get_steps(
        limit: Limit = 100,
        cursor: Cursor = None,
        order: Order = "newest",
        trajectory_id: Filter = None,
        group_id: Filter = None,
        prompt_id: Filter = None,
        status: Filter = None,
        source: Filter = None,
        split: Filter = None,
        model: Filter = None,
        policy_version_min: Version = None,
        policy_version_max: Version = None,
        since_commit: Since = None,
    ) -> Response:
        """Committed steps, newest first, without tokens and texts."""
        where = equal(
            trajectory_id=trajectory_id,
            group_id=group_id,
            prompt_id=prompt_id,
            status=status,
            source=source,
            split=split,
            model=model,
        )
        where += [] if policy_version_min is None else [f"policy_version >= {literal(policy_version_min)}"]
        where += [] if policy_version_max is None else [f"policy_version <= {literal(policy_version_max)}"]
        key = None if cursor is None else key_of(cursor, _KINDS)
        where += [] if since_commit is None else [f'"commit" > {since_commit}']
        return listed(rows.ask(page_sql(STEP, where, STEP_KEY, key, order, limit)), limit, STEP_KEY)

    @router.get("/steps/{step_id:path}", responses=FOUND)
    def get_step(step_id: str) -> Response:
        """One step, whole: prompt, answer, tokens, what is resolved about it, its feedback and its place in the tree."""
        found = rows.ask(f"SELECT * EXCLUDE ({_WHOLE}), {_WHOLE} FROM steps WHERE step_id = {literal(step_id)}")
        if not found:
            raise not_found("step", step_id)
        step = with_json(found[0], _JSON)
        return json_response({**step, "lineage": _lineage(rows, step), "feedback": _feedback(rows, step)})

    return router


def _lineage(rows: Rows, step: dict[str, Any]) -> dict[str, Any]:
    if step["trajectory_id"] is None:
        return lineage_of(step, [step])
    peers = rows.ask(
        f"SELECT step_id, parent_id, call_id FROM steps WHERE trajectory_id = {literal(step['trajectory_id'])} "
        'ORDER BY "commit", producer, sequence, step_id'
    )
    return lineage_of(step, peers)


def _feedback(rows: Rows, step: dict[str, Any]) -> list[dict[str, Any]]:
    """What counts of what was said about the step, by its own id or by the provider's."""
    about = {("step", step["step_id"]), ("response", step["response_id"])}
    ids = ", ".join(literal(id_) for _, id_ in sorted(about, key=str) if id_ is not None)
    found = rows.ask(
        f'SELECT * FROM feedback WHERE target_id IN ({ids}) ORDER BY "commit", producer, sequence, event_id'
    )
    return [with_json(row, ["payload"]) for row in found if (row["target_kind"], row["target_id"]) in about]
