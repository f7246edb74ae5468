"""`GET /stats`: how much there is, of what, and how fast it comes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.gateway._problems import json_response
from stepwell.gateway._read_rows import READ, Rows

__all__ = ["stats_routes"]

_KEPT = 5.0
"""Seconds for which an answer counts, at least; one that took long counts for twenty times as long."""
_TIMES = 20.0
_BY = ("source", "model", "status")
_COUNTED = (
    *("steps", "last_minute", "last_hour", "prompt_tokens", "input_tokens", "cached_input_tokens"),
    *("output_tokens", "reasoning_tokens", "tool_errors", "refusals", "drifts"),
)
_STATES = ("open", "completed", "failed", "incomplete")


def stats_routes(rows: Rows) -> APIRouter:
    """Looks at every row of a few narrow columns, so it is not done for each that asks."""
    router = APIRouter(tags=["read"])
    stats = _Kept(lambda: _stats(rows, datetime.now(UTC)))

    @router.get("/stats", responses=READ)
    def get_stats() -> Response:
        """Counts of steps, tokens, trajectories, groups, as of `at`: the answer is kept for some seconds."""
        return json_response(stats.get())

    return router


class _Kept:
    """The last answer, for a while; one at a time works out the next."""

    def __init__(self, make: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._value: dict[str, Any] | None = None

    def get(self) -> dict[str, Any]:
        """While the next answer is worked out, the last one is given: nobody waits but the first."""
        known = self._value
        if not self._lock.acquire(blocking=known is None):
            assert known is not None
            return known
        try:
            begun = self._clock()
            if self._value is None or begun >= self._until:
                self._value = self._make()
                done = self._clock()
                self._until = done + max(_KEPT, _TIMES * (done - begun))
            return self._value
        finally:
            self._lock.release()


def _stats(rows: Rows, at: datetime) -> dict[str, Any]:
    steps = rows.ask(_steps(at))
    trajectories = rows.ask(
        "SELECT state, count(*) AS trajectories, sum(trainable_steps) AS trainable_steps, "
        "sum(response_tokens) AS response_tokens, count(trajectory_reward) AS rewarded FROM trajectories GROUP BY state"
    )
    groups = rows.ask("SELECT count(*) AS groups, count(*) FILTER (ready) AS ready FROM groups")
    by_state = {row["state"]: int(row["trajectories"]) for row in trajectories}
    return {
        "at": at,
        "steps": {
            **{name: _sum(steps, name) for name in _COUNTED},
            **{f"by_{name}": _by(steps, name) for name in _BY},
        },
        "trajectories": {
            "trajectories": _sum(trajectories, "trajectories"),
            **{state: by_state.get(state, 0) for state in _STATES},
            **{name: _sum(trajectories, name) for name in ("rewarded", "trainable_steps", "response_tokens")},
        },
        "groups": {name: _sum(groups, name) for name in ("groups", "ready")},
    }


def _steps(at: datetime) -> str:
    now = int(at.timestamp() * 1_000_000)
    recent = "count(*) FILTER (epoch_us(finished_at) > {})"
    return f"""
        SELECT {", ".join(_BY)}, count(*) AS steps, {recent.format(now - 60_000_000)} AS last_minute,
               {recent.format(now - 3_600_000_000)} AS last_hour, sum(prompt_length) AS prompt_tokens,
               sum(input_tokens) AS input_tokens, sum(cached_input_tokens) AS cached_input_tokens,
               sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_tokens,
               count(*) FILTER (tool_error) AS tool_errors, count(*) FILTER (refusal) AS refusals,
               count(*) FILTER (drift) AS drifts
        FROM steps GROUP BY {", ".join(_BY)}"""


def _sum(rows: Sequence[dict[str, Any]], name: str) -> int:
    return sum(int(row[name] or 0) for row in rows)


def _by(rows: Sequence[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Steps for each value of a column, the most first."""
    counts: Counter[str | None] = Counter()
    for row in rows:
        counts[row[name]] += row["steps"]
    return [{name: value, "steps": count} for value, count in counts.most_common()]
