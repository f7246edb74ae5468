"""`GET /trajectories`, `GET /groups`, and one of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.responses import Response

from stepwell.gateway._cursor import literal
from stepwell.gateway._filters_wide import GroupFilters, TrajectoryFilters
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_listed import Listed, Paging, Source, parts
from stepwell.gateway._read_rows import FOUND, READ, Rows, with_json
from stepwell.gateway._read_steps import STEP
from stepwell.gateway._read_tree import conversations, tree
from stepwell.gateway._sorting import Columns, order_of

__all__ = ["group_routes", "trajectory_routes"]

_TRAJECTORIES = Source("trajectories", {"trajectory_id": str}, "trajectory_id")
_GROUPS = Source("groups", {"group_id": str}, "group_id")

_TRAJECTORY_SORTS: Columns = {
    **{name: (name, "text") for name in ("trajectory_id", "group_id", "prompt_id", "state", "agent", "model")},
    **{name: (f"epoch_us({name})", "number") for name in ("opened_at", "started_at", "last_at", "ended_at")},
    **{
        name: (name, "number")
        for name in ("steps", "trainable_steps", "turns", "response_tokens", "input_tokens", "output_tokens", "errors")
    },
    "reward": ("trajectory_reward", "number"),
    "policy_version": ("policy_version_max", "number"),
}
TrajectoryOrder = Literal[
    "trajectory_id", "-trajectory_id", "group_id", "-group_id", "prompt_id", "-prompt_id", "state", "-state", "agent", "-agent",
    "model", "-model", "opened_at", "-opened_at", "started_at", "-started_at", "last_at", "-last_at", "ended_at", "-ended_at",
    "steps", "-steps", "trainable_steps", "-trainable_steps", "turns", "-turns", "response_tokens", "-response_tokens",
    "input_tokens", "-input_tokens", "output_tokens", "-output_tokens", "errors", "-errors", "reward", "-reward",
    "policy_version", "-policy_version",
]  # fmt: skip
_GROUP_SORTS: Columns = {
    **{name: (name, "text") for name in ("group_id", "prompt_id")},
    **{
        name: (name, "number")
        for name in ("trajectories", "ended", "rewarded", "steps", "reward_mean", "reward_std", "open", "unrewarded")
    },
    "policy_version": ("policy_version_max", "number"),
    "last_at": ("epoch_us(last_at)", "number"),
}
GroupOrder = Literal[
    "group_id", "-group_id", "prompt_id", "-prompt_id", "trajectories", "-trajectories", "ended", "-ended", "rewarded", "-rewarded",
    "steps", "-steps", "reward_mean", "-reward_mean", "reward_std", "-reward_std", "open", "-open", "unrewarded", "-unrewarded",
    "policy_version", "-policy_version", "last_at", "-last_at",
]  # fmt: skip
_SORT = "A column; with `-` before it from the greatest down. Rows without a value come last."

_SHOWN = 1000
"""Steps of a tree, trajectories of a group, and events of either; more of them are in the lists."""
_OF_ALL = """coalesce(count(trajectory_reward) > 1 AND min(trajectory_reward) = max(trajectory_reward), false) AS zero_variance,
    coalesce(max(group_size), 0) AS size"""


class TrajectoryQuery(TrajectoryFilters, Paging):
    """What is asked of the list of trajectories."""

    sort: TrajectoryOrder = Field(default="trajectory_id", description=_SORT)


class GroupQuery(GroupFilters, Paging):
    """What is asked of the list of groups."""

    sort: GroupOrder = Field(default="group_id", description=_SORT)


def trajectory_routes(rows: Rows, listed: Listed) -> APIRouter:
    """`GET /trajectories`, `GET /trajectories/{trajectory_id}`."""
    router = APIRouter(tags=["read"])

    @router.get("/trajectories", responses=READ)
    def get_trajectories(asked: Annotated[TrajectoryQuery, Query()]) -> Response:
        """Trajectories with what their steps add up to, by id or as `sort` says."""
        order, meant = order_of(asked.sort, _TRAJECTORY_SORTS, ["trajectory_id"]), listed.meant(asked)
        return json_response(
            listed.page(_TRAJECTORIES, meant, order, cursor=asked.cursor, limit=asked.limit, count=asked.count)
        )

    @router.get("/trajectories/{trajectory_id:path}", responses=FOUND)
    def get_trajectory(trajectory_id: str) -> Response:
        """One trajectory: its state and rewards, the tree of its steps (the first 1,000), and what was said about them."""
        found = rows.one("SELECT * FROM trajectories", "trajectory", trajectory_id)
        about = f"trajectory_id = {literal(trajectory_id)}"
        shown = STEP.replace("step_id,", "step_id, response_id,", 1)
        order = '"commit", producer, sequence, step_id'
        steps = rows.ask(f"{shown} WHERE {about} ORDER BY {order} LIMIT {_SHOWN + 1}")
        nodes = tree(steps[:_SHOWN])
        return json_response(
            {
                **found,
                "tree": nodes,
                "tree_is_whole": len(steps) <= _SHOWN,
                "conversations": conversations(nodes),
                "events": _events(rows, trajectory_id, nodes),
            }
        )

    return router


def group_routes(rows: Rows, listed: Listed) -> APIRouter:
    """`GET /groups`, `GET /groups/{group_id}`."""
    router = APIRouter(tags=["read"])

    @router.get("/groups", responses=READ)
    def get_groups(asked: Annotated[GroupQuery, Query()]) -> Response:
        """Prompt groups, by id or as `sort` says. `open`, `unrewarded` and `missing` say what one that is not ready waits for."""
        order, meant = order_of(asked.sort, _GROUP_SORTS, ["group_id"]), listed.meant(asked)
        return json_response(
            listed.page(_GROUPS, meant, order, cursor=asked.cursor, limit=asked.limit, count=asked.count)
        )

    @router.get("/groups/{group_id:path}", responses=FOUND)
    def get_group(group_id: str) -> Response:
        """One group, its trajectories (the first 1,000) with their states and rewards, and what it waits for."""
        found = rows.one("SELECT * FROM groups", "group", group_id)
        about = f"group_id = {literal(group_id)}"
        members = rows.ask(f"SELECT * FROM trajectories WHERE {about} ORDER BY trajectory_id LIMIT {_SHOWN}")
        [whole] = rows.ask(f"SELECT {_OF_ALL} FROM trajectories WHERE {about}")  # and not of the first ones only
        waits_for = _waits_for(found, members, whole["size"])
        return json_response(
            {**found, "zero_variance": whole["zero_variance"], "waits_for": waits_for, "members": members}
        )

    return router


def _waits_for(group: dict[str, Any], members: Sequence[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Why a group is not ready: each reason with how many, and the first trajectories that it is about. `size`: as declared, or 0."""
    still = [row["trajectory_id"] for row in members if row["state"] == "open"]
    unrewarded = [row["trajectory_id"] for row in members if row["trajectory_reward"] is None]
    missing = size - group["trajectories"]
    reasons: tuple[tuple[str, int, list[str], str], ...] = (
        ("missing", missing, [], "trajectories have not begun, by the declared group_size"),
        ("open", group["trajectories"] - group["ended"], still, "trajectories have not ended"),
        ("unrewarded", group["trajectories"] - group["rewarded"], unrewarded, "trajectories have no reward"),
    )
    return [
        {"reason": reason, "count": count, "text": text, "trajectory_ids": ids[:20]}
        for reason, count, ids, text in reasons
        if count > 0
    ]


def _events(rows: Rows, trajectory_id: str, nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first events about a trajectory and its steps, in their order."""
    about = {("trajectory", trajectory_id)}
    about |= {(kind, node[f"{kind}_id"]) for node in nodes for kind in ("step", "response")}
    ids = sorted({id_ for _, id_ in about if id_ is not None})
    found = [row for some in parts(ids) for row in rows.ask(_about(some))]
    mine = [row for row in found if (row["target_kind"], row["target_id"]) in about]
    mine.sort(key=lambda row: (row["commit"], row["producer"], row["sequence"], row["event_id"]))
    return [with_json(row, ["payload"]) for row in mine[:_SHOWN]]


def _about(ids: Sequence[str]) -> str:
    order = '"commit", producer, sequence, event_id'
    listed_ids = ", ".join(literal(id_) for id_ in ids)
    return f"SELECT * FROM events WHERE target_id IN ({listed_ids}) ORDER BY {order} LIMIT {_SHOWN}"
