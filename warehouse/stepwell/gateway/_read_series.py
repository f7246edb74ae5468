"""`GET /stats/series`: how figures went, in equal pieces of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.gateway._listing_tables import ERROR
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_rows import READ

__all__ = ["series_routes"]

_SHOWN = 12
"""Values that have a series of their own; all others have one together."""
_FIGURES = {
    "steps": "count(*)",
    "tokens": "sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0))",
    "input_tokens": "sum(coalesce(input_tokens, 0))",
    "output_tokens": "sum(coalesce(output_tokens, 0))",
    "errors": f"count(*) FILTER ({ERROR})",
    "rewards": "count(reward)",
    "reward_mean": "avg(reward)",
}
_LONGEST = 366 * 24 * 3600

Of = Literal["steps", "tokens", "input_tokens", "output_tokens", "errors", "rewards", "reward_mean"]
By = Literal["source", "model", "policy_version", "status", "agent", "policy", "dialect"]
Bucket = Annotated[int, Query(ge=1, le=7 * 24 * 3600, description="Seconds of a piece.")]
Buckets = Annotated[int, Query(ge=1, le=500, description="Pieces.")]
Until = Annotated[datetime | None, Query(description="The last piece is the one that this is in; by default now.")]


def series_routes(listed: Listed) -> APIRouter:
    """By the time at which steps were finished."""
    router = APIRouter(tags=["read"])

    @router.get("/stats/series", responses=READ)
    def get_series(
        of: Of = "steps", by: By | None = None, bucket: Bucket = 60, buckets: Buckets = 60, until: Until = None
    ) -> Response:
        """A figure for each piece of time, for all steps or for each value of a column (those of most steps, and the others together)."""
        at = datetime.now(UTC)
        last = at if until is None else until if until.tzinfo is not None else until.replace(tzinfo=UTC)
        if bucket * buckets > _LONGEST or not 1 <= last.timestamp() / bucket - buckets <= 2**33:
            raise Problem(422, "bucket, buckets: at most a year, and none of it before 1970", field="buckets")
        start = (int(last.timestamp()) // bucket - buckets + 1) * bucket
        rows = listed.ask(_sql(of, by, start, bucket, buckets))
        return json_response(
            {
                "at": at,
                "of": of,
                "by": by,
                "bucket_s": bucket,
                "start": datetime.fromtimestamp(start, UTC),
                "series": _series(rows, buckets, empty=None if of == "reward_mean" else 0),
            }
        )

    return router


def _sql(of: str, by: str | None, start: int, bucket: int, buckets: int) -> str:
    """Rows of `key`, `other` (the key stands for all others), `place` and `value`, the keys of most steps first."""
    place = f"(epoch_us(finished_at) // 1000000 - {start}) // {bucket}"
    first, last = (f"make_timestamptz({at * 1_000_000})" for at in (start, start + bucket * buckets))
    among = f"SELECT * FROM steps WHERE finished_at >= {first} AND finished_at < {last}"
    key = "NULL" if by is None else f"CAST({by} AS VARCHAR)"
    return f"""
        WITH among AS ({among}),
             ranked AS (SELECT {key} AS key, row_number() OVER (ORDER BY count(*) DESC, key) AS rank FROM among GROUP BY 1)
        SELECT CASE WHEN rank <= {_SHOWN} THEN r.key END AS key, rank > {_SHOWN} AS other, least(rank, {_SHOWN + 1}) AS rank,
               {place} AS place, {_FIGURES[of]} AS value
        FROM among JOIN ranked r ON r.key IS NOT DISTINCT FROM {key}
        GROUP BY ALL ORDER BY rank, place"""


def _series(rows: Sequence[dict[str, Any]], buckets: int, empty: int | None) -> list[dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        fresh = {"key": row["key"], "other": row["other"], "values": [empty] * buckets}
        found.setdefault(row["rank"], fresh)["values"][row["place"]] = row["value"]
    return list(found.values())
