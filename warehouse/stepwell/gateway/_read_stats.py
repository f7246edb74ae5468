"""`GET /stats`: how much there is, of what, and how fast it comes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.gateway._keeper import Keeper
from stepwell.gateway._kept import Kept
from stepwell.gateway._listing_tables import ERROR
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_listed import OVER_SUMMARIES, Listed
from stepwell.gateway._read_rows import READ
from stepwell.gateway._spools import ingest_runs, producers, totals

__all__ = ["stats_routes"]

_BY = ("source", "model", "status", "agent")
_COUNTED = (
    *("steps", "last_minute", "last_hour", "prompt_tokens", "input_tokens", "cached_input_tokens"),
    *("output_tokens", "reasoning_tokens", "tool_errors", "refusals", "drifts", "errors", "truncated"),
    *("calls_last_minute", "tokens_last_minute", "errors_last_minute"),
)
_STATES = ("open", "completed", "failed", "incomplete")
_MOST = 50
"""Values that are told of a column, those of most steps; versions of policies, the newest."""


def stats_routes(listed: Listed, keeper: Keeper) -> APIRouter:
    """Looks at every step, so it is not done for each that asks."""
    router = APIRouter(tags=["read"])
    stats = Kept(lambda: _stats(listed, keeper, datetime.now(UTC)))

    @router.get("/stats", responses=READ)
    def get_stats() -> Response:
        """Counts of steps, tokens, trajectories, groups, as of `at`, and what came today (UTC): the answer is kept for some seconds."""
        return json_response(stats.get())

    return router


def _stats(listed: Listed, keeper: Keeper, at: datetime) -> dict[str, Any]:
    [steps] = listed.ask(_steps(at))
    trajectories = listed.ask(
        "SELECT state, count(*) AS trajectories, sum(trainable_steps) AS trainable_steps, "
        "sum(response_tokens) AS response_tokens, count(trajectory_reward) AS rewarded FROM trajectories GROUP BY state",
        OVER_SUMMARIES,
    )
    groups = listed.ask("SELECT count(*) AS groups, count(*) FILTER (ready) AS ready FROM groups", OVER_SUMMARIES)
    by_state = {row["state"]: int(row["trajectories"]) for row in trajectories}
    return {
        "at": at,
        "steps": {
            **{name: int(steps[name] or 0) for name in _COUNTED},
            **{f"by_{name}": _by(listed, name) for name in _BY},
            "by_policy_version": _by_version(listed),
        },
        "trajectories": {
            "trajectories": _sum(trajectories, "trajectories"),
            **{state: by_state.get(state, 0) for state in _STATES},
            **{name: _sum(trajectories, name) for name in ("rewarded", "trainable_steps", "response_tokens")},
        },
        "groups": {name: _sum(groups, name) for name in ("groups", "ready")},
        "quarantined": listed.rows.ask("SELECT count(*) AS many FROM quarantine")[0]["many"],
        "today": _today(listed, at.replace(hour=0, minute=0, second=0, microsecond=0)),
        "spool": {
            **totals(producers(keeper.folder, listed.rows.warehouse)),
            "ingest_alive": ingest_runs(keeper.folder),
        },
    }


def _steps(at: datetime) -> str:
    minute, hour = (f"finished_at > {_moment(at - timedelta(seconds=seconds))}" for seconds in (60, 3600))
    return f"""
        SELECT count(*) AS steps, count(*) FILTER ({minute}) AS last_minute,
               count(*) FILTER ({hour}) AS last_hour, sum(prompt_length) AS prompt_tokens,
               sum(input_tokens) AS input_tokens, sum(cached_input_tokens) AS cached_input_tokens,
               sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_tokens,
               count(*) FILTER (tool_error) AS tool_errors, count(*) FILTER (refusal) AS refusals,
               count(*) FILTER (drift) AS drifts, count(*) FILTER ({ERROR}) AS errors,
               count(DISTINCT coalesce(call_id, step_id)) FILTER ({minute}) AS calls_last_minute,
               count(*) FILTER (truncated) AS truncated, count(*) FILTER ({ERROR} AND {minute}) AS errors_last_minute,
               sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)) FILTER ({minute}) AS tokens_last_minute
        FROM steps"""


def _today(listed: Listed, since: datetime) -> dict[str, Any]:
    begun = _moment(since)
    [steps] = listed.ask(f"""
        SELECT count(*) AS steps, count(DISTINCT coalesce(call_id, step_id)) AS calls, count(DISTINCT trajectory_id) AS trajectories,
               sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
               count(*) FILTER ({ERROR}) AS errors FROM steps WHERE finished_at >= {begun}""")
    events = listed.rows.ask(f"SELECT kind, count(*) AS events FROM events WHERE created_at >= {begun} GROUP BY kind")
    by_kind = {row["kind"]: row["events"] for row in events}
    datasets, quarantined = (
        listed.rows.ask(f"SELECT count(*) AS many FROM {table} WHERE created_at >= {begun}")[0]["many"]
        for table in ("datasets", "quarantine")
    )
    return {
        "since": since,
        **{name: int(value or 0) for name, value in steps.items()},
        "events": sum(by_kind.values()),
        "rewards": by_kind.get("reward", 0),
        "completed": by_kind.get("trajectory.completed", 0),
        "by_kind": by_kind,
        "datasets": datasets,
        "quarantined": quarantined,
    }


def _moment(at: datetime) -> str:
    return f"make_timestamptz({int(at.timestamp() * 1_000_000)})"


def _sum(rows: Sequence[dict[str, Any]], name: str) -> int:
    return sum(int(row[name] or 0) for row in rows)


def _by(listed: Listed, name: str) -> list[dict[str, Any]]:
    """Steps for each value of a column, the most first."""
    return listed.ask(f"SELECT {name}, count(*) AS steps FROM steps GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT {_MOST}")


def _by_version(listed: Listed) -> list[dict[str, Any]]:
    """Steps for each version of each policy, the newest first; those of no version last."""
    order = "policy_version DESC NULLS LAST, policy NULLS FIRST"
    return listed.ask(
        f"SELECT policy, policy_version, count(*) AS steps FROM steps GROUP BY ALL ORDER BY {order} LIMIT {_MOST}"
    )
