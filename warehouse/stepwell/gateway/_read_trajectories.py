"""`GET /trajectories`, `GET /groups`, and one of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from stepwell.gateway._read_steps import STEP
from stepwell.gateway._read_tree import conversations, tree

__all__ = ["group_routes", "trajectory_routes"]

State = Annotated[Literal["open", "completed", "failed", "incomplete"] | None, Query()]

_SHOWN = 1000
"""Steps of a tree, trajectories of a group, and events of either; more of them are in the lists."""
_AT_ONCE = 200
"""Ids that the warehouse finds by its index."""


def trajectory_routes(rows: Rows) -> APIRouter:
    """`GET /trajectories`, `GET /trajectories/{trajectory_id}`."""
    router = APIRouter(tags=["read"])

    @router.get("/trajectories", responses=READ)
    def get_trajectories(
        limit: Limit = 100,
        cursor: Cursor = None,
        group_id: Filter = None,
        prompt_id: Filter = None,
        split: Filter = None,
        state: State = None,
    ) -> Response:
        """Trajectories, by id."""
        where = equal(group_id=group_id, prompt_id=prompt_id, split=split, state=state)
        key = None if cursor is None else key_of(cursor, (str,))
        sql = page_sql("SELECT * FROM trajectories", where, ("trajectory_id",), key, "oldest", limit)
        return listed(rows.ask(sql), limit, ("trajectory_id",))

    @router.get("/trajectories/{trajectory_id:path}", responses=FOUND)
    def get_trajectory(trajectory_id: str) -> Response:
        """One trajectory: its state and rewards, the tree of its steps (the first 1,000), and what was said about them."""
        about = f"trajectory_id = {literal(trajectory_id)}"
        found = rows.ask(f"SELECT * FROM trajectories WHERE {about}")
        if not found:
            raise not_found("trajectory", trajectory_id)
        shown = STEP.replace("step_id,", "step_id, response_id,", 1)
        order = '"commit", producer, sequence, step_id'
        steps = rows.ask(f"{shown} WHERE {about} ORDER BY {order} LIMIT {_SHOWN + 1}")
        nodes = tree(steps[:_SHOWN])
        return json_response(
            {
                **found[0],
                "tree": nodes,
                "tree_is_whole": len(steps) <= _SHOWN,
                "conversations": conversations(nodes),
                "events": _events(rows, trajectory_id, nodes),
            }
        )

    return router


def group_routes(rows: Rows) -> APIRouter:
    """`GET /groups`, `GET /groups/{group_id}`."""
    router = APIRouter(tags=["read"])

    @router.get("/groups", responses=READ)
    def get_groups(
        limit: Limit = 100,
        cursor: Cursor = None,
        prompt_id: Filter = None,
        split: Filter = None,
        ready: bool | None = None,
    ) -> Response:
        """Prompt groups, by id. `ready`: every trajectory has ended and has a reward."""
        where = equal(prompt_id=prompt_id, split=split)
        where += [] if ready is None else [f"ready = {str(ready).lower()}"]
        key = None if cursor is None else key_of(cursor, (str,))
        sql = page_sql("SELECT * FROM groups", where, ("group_id",), key, "oldest", limit)
        return listed(rows.ask(sql), limit, ("group_id",))

    @router.get("/groups/{group_id:path}", responses=FOUND)
    def get_group(group_id: str) -> Response:
        """One group, and its trajectories (the first 1,000) with their states and rewards."""
        about = f"group_id = {literal(group_id)}"
        found = rows.ask(f"SELECT * FROM groups WHERE {about}")
        if not found:
            raise not_found("group", group_id)
        members = rows.ask(f"SELECT * FROM trajectories WHERE {about} ORDER BY trajectory_id LIMIT {_SHOWN}")
        return json_response({**found[0], "members": members})

    return router


def _events(rows: Rows, trajectory_id: str, nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first events about a trajectory and its steps, in their order."""
    about = {("trajectory", trajectory_id)}
    about |= {(kind, node[f"{kind}_id"]) for node in nodes for kind in ("step", "response")}
    ids = sorted({id_ for _, id_ in about if id_ is not None})
    found = [row for some in _parts(ids) for row in rows.ask(_about(some))]
    mine = [row for row in found if (row["target_kind"], row["target_id"]) in about]
    mine.sort(key=lambda row: (row["commit"], row["producer"], row["sequence"], row["event_id"]))
    return [with_json(row, ["payload"]) for row in mine[:_SHOWN]]


def _about(ids: Sequence[str]) -> str:
    order = '"commit", producer, sequence, event_id'
    listed_ids = ", ".join(literal(id_) for id_ in ids)
    return f"SELECT * FROM events WHERE target_id IN ({listed_ids}) ORDER BY {order} LIMIT {_SHOWN}"


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]
