"""`GET /attention`: what somebody should look at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._kept import Kept
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_listed import OVER_SUMMARIES, Listed
from stepwell.gateway._read_rows import READ
from stepwell.gateway._spools import Producer, ingest_runs, producers

__all__ = ["attention_routes", "stalled"]

Severity = Literal["error", "warning", "note"]

_STALLED = timedelta(minutes=10)
"""A group of which nothing came for so long waits for something that may not come."""
_FULL = 0.8
"""Of the spool's bound."""
_WAITS = 30.0
"""Seconds after which a record should have been committed."""


def attention_routes(listed: Listed, keeper: Keeper, config: GatewayConfig) -> APIRouter:
    """Each is a count, and where to look."""
    router = APIRouter(tags=["read"])
    found = Kept(lambda: _attention(listed, keeper, config, datetime.now(UTC)))

    @router.get("/attention", responses=READ)
    def get_attention() -> Response:
        """What was lost, could not be read, waits, or teaches nothing; the worst first. The answer is kept for some seconds."""
        return json_response(found.get())

    return router


def stalled(at: datetime) -> str:
    """The condition on the listing's table `groups` that one waits for trajectories of which nothing came for long."""
    return f"NOT ready AND open > 0 AND epoch_us(last_at) < {int((at - _STALLED).timestamp() * 1_000_000)}"


def _attention(listed: Listed, keeper: Keeper, config: GatewayConfig, at: datetime) -> dict[str, Any]:
    spools = producers(keeper.folder, listed.rows.warehouse)
    items = [*_spooled(spools, ingest_runs(keeper.folder)), *_full(keeper, config), *_kept(listed, at)]
    rank = {"error": 0, "warning": 1, "note": 2}
    return {"at": at, "items": sorted((one for one in items if one["count"]), key=lambda one: rank[one["severity"]])}


def _spooled(spools: list[Producer], ingest: bool) -> Iterator[dict[str, Any]]:
    lost, lag = sum(one.lost for one in spools), sum(one.lag for one in spools)
    waits = max((one.waited_s for one in spools), default=0.0)
    yield _item("captures_lost", "error", lost, "captures or records were lost by their producers", "collect")
    broken = sum(one.kind == "unreadable" for one in spools)
    yield _item("spool_unreadable", "error", broken, "spools cannot be read", "collect")
    if lag and not ingest:
        yield _item("ingest_down", "error", lag, "records wait and no ingest runs: start `stepwell up`", "collect")
    elif waits > _WAITS:
        text = f"records are not committed yet; the oldest has waited {waits:.0f} s"
        yield _item("commit_lag", "warning", lag, text, "collect")


def _full(keeper: Keeper, config: GatewayConfig) -> Iterator[dict[str, Any]]:
    part = keeper.writer.spool.bytes / config.max_spool_bytes
    if part >= _FULL:
        text = "percent of the gateway's spool are full: beyond its bound submissions are refused"
        yield _item("spool_full", "error", int(part * 100), text, "system")


def _kept(listed: Listed, at: datetime) -> Iterator[dict[str, Any]]:
    [exchanges] = listed.rows.ask("SELECT count(*) AS many FROM quarantine")
    yield _item("quarantined", "warning", exchanges["many"], "calls could not be read", "collect/quarantine")
    [ended] = listed.ask(
        "SELECT count(*) FILTER (state <> 'open' AND trajectory_reward IS NULL) AS unrewarded, "
        "count(*) FILTER (state = 'incomplete') AS incomplete FROM trajectories",
        OVER_SUMMARIES,
    )
    link = "trajectories?ended=true&has_reward=false"
    yield _item("missing_rewards", "warning", ended["unrewarded"], "trajectories ended and have no reward", link)
    yield _item(
        "incomplete",
        "warning",
        ended["incomplete"],
        "trajectories ended and lost a call",
        "trajectories?state=incomplete",
    )
    yield from _groups(listed, at)


def _groups(listed: Listed, at: datetime) -> Iterator[dict[str, Any]]:
    sql = f"SELECT count(*) FILTER (zero_variance) AS alike, count(*) FILTER ({stalled(at)}) AS stalled FROM groups"
    [groups] = listed.ask(sql, OVER_SUMMARIES)
    minutes = int(_STALLED.total_seconds() // 60)
    text = f"groups wait for trajectories that have not ended, and nothing came for {minutes} minutes"
    yield _item("stalled_groups", "warning", groups["stalled"], text, "curate/groups?stalled=true")
    text = "groups have the same reward throughout, and teach nothing by comparison"
    yield _item("zero_variance_groups", "note", groups["alike"], text, "curate/groups?zero_variance=true")


def _item(kind: str, severity: Severity, count: int, text: str, link: str) -> dict[str, Any]:
    """`link`: the view of the dashboard that shows them, behind `#/`."""
    return {"kind": kind, "severity": severity, "count": count, "text": text, "link": link}
