"""`GET /steps`, `GET /steps/{step_id}`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from stepwell.gateway._cursor import literal
from stepwell.gateway._filters import StepFilters
from stepwell.gateway._listing_tables import AGENT
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_listed import Listed, Paging, Source
from stepwell.gateway._read_rows import (
    FOUND,
    READ,
    KeyColumns,
    Order,
    Rows,
    equal,
    with_json,
)
from stepwell.gateway._read_tree import lineage_of
from stepwell.gateway._sorting import Columns, order_of

__all__ = ["STEP", "STEP_KEY", "step_routes"]

_NUMBERS = ("turn", "policy_version", "prompt_length", "input_tokens", "output_tokens", "reward")
_TEXTS = ("step_id", "trajectory_id", "group_id", "prompt_id", "status", "model", "source", "agent")
SortedBy = Literal[
    "commit", "-commit", "finished_at", "-finished_at", "started_at", "-started_at", "duration", "-duration",
    "turn", "-turn", "policy_version", "-policy_version", "prompt_length", "-prompt_length",
    "input_tokens", "-input_tokens", "output_tokens", "-output_tokens", "reward", "-reward",
    "step_id", "-step_id", "trajectory_id", "-trajectory_id", "group_id", "-group_id", "prompt_id", "-prompt_id",
    "status", "-status", "model", "-model", "source", "-source", "agent", "-agent",
]  # fmt: skip

STEP = f"""SELECT step_id, call_id, trajectory_id, prompt_id, group_id, split, parent_id, turn, status, finish_reason,
    trainable, untrainable_reason, superseded_by, side, policy, policy_version, model, source, dialect, prompt_length,
    input_tokens, output_tokens, step_reward, trajectory_reward, labels, drift, drift_cause, tool_error, refusal,
    {AGENT} AS agent, started_at, first_token_at, finished_at, "commit", producer, sequence FROM steps"""
"""Steps without their tokens and texts."""
STEP_KEY: KeyColumns = {"commit": int, "producer": str, "sequence": int, "step_id": str}
_STEPS = Source("steps", STEP_KEY, "step_id", STEP)

SORTS: Columns = {
    "commit": ('"commit"', "number"),
    "finished_at": ("epoch_us(finished_at)", "number"),
    "started_at": ("epoch_us(started_at)", "number"),
    "duration": ("epoch_us(finished_at) - epoch_us(started_at)", "number"),
    **{name: (name, "number") for name in _NUMBERS},
    **{name: (name, "text") for name in _TEXTS},
}
"""What steps can be sorted by. `reward`: the step's, or else its trajectory's."""


class StepQuery(StepFilters, Paging):
    """What is asked of the list."""

    order: Order = Field(
        default="newest", description="In the order of commit; clocks are not trusted. Not with `sort`."
    )
    sort: SortedBy | None = Field(
        default=None,
        description="A column; with `-` before it from the greatest down. Steps without a value come last.",
    )

    def plain(self) -> list[str] | None:
        """Conditions on the view `steps`, where one trajectory's are all that is asked for: found by an index, listed or not."""
        if self.trajectory_id is None or self.count or self.sort is not None:
            return None
        if not self.given() <= {"trajectory_id", "since_commit"}:
            return None
        where = equal(trajectory_id=self.trajectory_id)
        return where + ([] if self.since_commit is None else [f'"commit" > {self.since_commit}'])


_WHOLE = "prompt_ids, messages, tools"
_JSON = ("messages", "tools", "response", "sampling", "usage", "metadata", "extra")


def step_routes(rows: Rows, listed: Listed) -> APIRouter:
    """Plain functions: they block, so FastAPI runs them in threads."""
    router = APIRouter(tags=["read"])

    @router.get("/steps", responses=READ)
    def get_steps(asked: Annotated[StepQuery, Query()]) -> Response:
        """Committed steps, without tokens and texts, newest first or as `sort` says."""
        if (where := asked.plain()) is not None:
            return rows.page(STEP, where, STEP_KEY, cursor=asked.cursor, limit=asked.limit, order=asked.order)
        order = order_of(asked.sort or ("-commit" if asked.order == "newest" else "commit"), SORTS, list(STEP_KEY))
        meant = listed.meant(asked)
        return json_response(
            listed.page(_STEPS, meant, order, cursor=asked.cursor, limit=asked.limit, count=asked.count)
        )

    @router.get("/steps/{step_id:path}", responses=FOUND)
    def get_step(step_id: str) -> Response:
        """One step, whole: prompt, answer, tokens, what is resolved about it, its feedback and its place in the tree."""
        found = rows.one(f"SELECT * EXCLUDE ({_WHOLE}), {_WHOLE} FROM steps", "step", step_id)
        step = with_json(found, _JSON)
        return json_response({**step, "lineage": _lineage(rows, step), "feedback": _feedback(rows, step)})

    return router


def _lineage(rows: Rows, step: dict[str, Any]) -> dict[str, Any]:
    peers = [step]
    if step["trajectory_id"] is not None:
        peers = rows.ask(
            f"SELECT step_id, parent_id, call_id FROM steps WHERE trajectory_id = {literal(step['trajectory_id'])} "
            'ORDER BY "commit", producer, sequence, step_id'
        )
    return {**lineage_of(step, peers), "same_answer": _same_answer(rows, step)}


def _same_answer(rows: Rows, step: dict[str, Any]) -> list[str]:
    """A trace's step and the captured one know each other by the provider's id and the number of the choice."""
    if step["response_id"] is None:
        return []
    found = rows.ask(
        "SELECT step_id, json_extract(metadata, '$.otlp') IS NOT NULL AS traced FROM steps "
        f"WHERE response_id = {literal(step['response_id'])} ORDER BY step_id"
    )
    traced = {row["step_id"]: row["traced"] for row in found}
    own, choice = traced.get(step["step_id"]), _choice(step["step_id"])
    return [id_ for id_, other in traced.items() if other is not own and _choice(id_) == choice]


def _choice(step_id: str) -> str:
    number = step_id.rpartition(".")[2]
    return number if number.isdecimal() else ""


def _feedback(rows: Rows, step: dict[str, Any]) -> list[dict[str, Any]]:
    """What counts of what was said about the step, by its own id or by the provider's."""
    about = {("step", step["step_id"]), ("response", step["response_id"])}
    ids = ", ".join(literal(id_) for _, id_ in sorted(about, key=str) if id_ is not None)
    found = rows.ask(
        f'SELECT * FROM feedback WHERE target_id IN ({ids}) ORDER BY "commit", producer, sequence, event_id'
    )
    return [with_json(row, ["payload"]) for row in found if (row["target_kind"], row["target_id"]) in about]
