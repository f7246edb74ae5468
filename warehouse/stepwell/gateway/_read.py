"""The lists a dashboard starts from. Rows are summaries: tokens and texts are read through the reader or SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from stepwell.gateway._cursor import Key, key_of, literal, opaque
from stepwell.gateway._problems import json_response
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["read_routes"]

Limit = Annotated[int, Query(ge=1, le=500, description="Most rows to return.")]
Cursor = Annotated[str | None, Query(max_length=2000, description="The `next` of the page before.")]
Order = Annotated[Literal["newest", "oldest"], Query(description="In the order of commit; clocks are not trusted.")]
Filter = Annotated[str | None, Query(min_length=1, max_length=256)]

_STEP_COLUMNS = """step_id, call_id, trajectory_id, prompt_id, group_id, split, parent_id, turn, status, finish_reason,
    trainable, untrainable_reason, policy, policy_version, model, source, prompt_length, step_reward, trajectory_reward,
    started_at, finished_at, "commit", producer, sequence"""
_STEP_KEY = ("commit", "producer", "sequence", "step_id")
_STEP_KINDS = (int, str, int, str)


def read_routes(warehouse: LazyWarehouse) -> APIRouter:
    """`GET /steps`, `/trajectories`, `/datasets`. Plain functions: they block, so FastAPI runs them in threads."""
    router = APIRouter(tags=["read"])

    @router.get("/steps")
    def get_steps(
        limit: Limit = 100, cursor: Cursor = None, trajectory_id: Filter = None, order: Order = "newest"
    ) -> Response:
        """Committed steps, newest first."""
        where = [] if trajectory_id is None else [f"trajectory_id = {literal(trajectory_id)}"]
        key = None if cursor is None else key_of(cursor, _STEP_KINDS)
        sql = _page(f"SELECT {_STEP_COLUMNS} FROM steps", where, _STEP_KEY, key, order, limit)
        return _listed(warehouse.query(sql).to_pylist(maps_as_pydicts="lossy"), limit, _STEP_KEY)

    @router.get("/trajectories")
    def get_trajectories(
        limit: Limit = 100, cursor: Cursor = None, group_id: Filter = None, prompt_id: Filter = None
    ) -> Response:
        """Trajectories, by id."""
        filters = {"group_id": group_id, "prompt_id": prompt_id}
        where = [f"{column} = {literal(value)}" for column, value in filters.items() if value is not None]
        key = None if cursor is None else key_of(cursor, (str,))
        sql = _page("SELECT * FROM trajectories", where, ("trajectory_id",), key, "oldest", limit)
        return _listed(warehouse.query(sql).to_pylist(maps_as_pydicts="lossy"), limit, ("trajectory_id",))

    @router.get("/datasets")
    def get_datasets() -> Response:
        """Every version of every dataset."""
        rows = warehouse.query("SELECT * FROM datasets ORDER BY name, version").to_pylist()
        return json_response({"items": rows, "next": None})

    return router


def _page(select: str, where: Sequence[str], columns: Sequence[str], after: Key | None, order: str, limit: int) -> str:
    """One page and one row more, which tells whether there is another page."""
    names = ", ".join(f'"{column}"' for column in columns)
    conditions = list(where)
    if after is not None:
        values = ", ".join(literal(part) for part in after)
        conditions.append(f"({names}) {'<' if order == 'newest' else '>'} ({values})")
    clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    direction = "DESC" if order == "newest" else "ASC"
    ordering = ", ".join(f'"{column}" {direction}' for column in columns)
    return f"{select}{clause} ORDER BY {ordering} LIMIT {limit + 1}"


def _listed(rows: list[dict[str, Any]], limit: int, columns: Sequence[str]) -> Response:
    page = rows[:limit]
    more = len(rows) > limit
    following = opaque([page[-1][column] for column in columns]) if more else None
    return json_response({"items": page, "next": following})
