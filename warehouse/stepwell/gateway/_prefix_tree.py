"""`GET /prefix-tree`: what steps share, as rectangles to be drawn."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from stepwell.gateway._openapi import refusal
from stepwell.gateway._read_rows import FOUND
from stepwell.gateway._workers import Workers

__all__ = ["Most", "Node", "Pixels", "Width", "prefix_tree_routes"]

Node = Annotated[int, Field(ge=0, lt=2**40)]
Width = Literal["tokens", "steps"]
Pixels = Annotated[int, Field(ge=1, le=10_000)]
Most = Annotated[int, Field(ge=1, le=4000)]

Id = Annotated[str | None, Query(min_length=1, max_length=256)]
Named = Annotated[str | None, Query(min_length=1, max_length=300, description="`name` or `name@version`.")]
Where = Annotated[str | None, Query(min_length=1, max_length=10_000, description="A condition over the view `steps`.")]
Commit = Annotated[
    int | None, Query(ge=0, lt=2**62, description="The version of the warehouse: `at` of an answer before.")
]

_ANSWERS: dict[int | str, dict[str, Any]] = FOUND | {
    422: refusal("A parameter cannot be what it is, or too many steps are selected."),
    503: refusal("Too many ask at once, or it took too long: come again after Retry-After, or ask for less."),
}


def prefix_tree_routes(workers: Workers) -> APIRouter:
    """Made by a worker: it reads the tokens of all the steps."""
    router = APIRouter(tags=["train"])

    @router.get("/prefix-tree", responses=_ANSWERS)
    async def get_prefix_tree(
        request: Request,
        dataset: Named = None,
        group_id: Id = None,
        trajectory_id: Id = None,
        where: Where = None,
        at: Commit = None,
        node: Annotated[Node | None, Query(description="Draw the subtree of this node only.")] = None,
        by: Annotated[Width, Query(description="What a rectangle is as wide as.")] = "tokens",
        budget_px: Annotated[
            Pixels, Query(description="Nothing is narrower than one pixel of a picture this wide.")
        ] = 1200,
        limit: Annotated[Most, Query(description="Most rectangles.")] = 2000,
    ) -> Response:
        """The prefix tree of some steps: its largest nodes as rectangles, in depth-first order, and what is cut summed up."""
        chosen = {"dataset": dataset, "group_id": group_id, "trajectory_id": trajectory_id, "where": where, "at": at}
        asked = {**chosen, "node": node, "by": by, "budget_px": budget_px, "limit": limit}
        return await workers.answer(request, "tree", asked)

    return router
