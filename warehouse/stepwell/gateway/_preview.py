"""`POST /batches/preview` and `POST /batches/prefix-tree`: what a trainer would get, and what it shares."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio.to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from stepwell.errors import InvalidRecord
from stepwell.gateway._body import parsed, read_body
from stepwell.gateway._filters import Real
from stepwell.gateway._made_datasets import Chosen
from stepwell.gateway._openapi import RESPONSES, refusal, takes_one
from stepwell.gateway._prefix_tree import Most, Node, Pixels, Width
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_rows import FOUND
from stepwell.gateway._workers import Workers
from stepwell.sdk.records import checked

__all__ = ["BatchTree", "Preview", "preview_routes"]

_MOST_BYTES = 2 << 20
"""As many as filters may take: 500 ids."""
Count = Annotated[int, Field(ge=1, le=100_000_000)]
Estimator = Literal["none", "reinforce", "grpo", "rloo", "reinforce++", "reinforce++-baseline", "step"]
Trainer = Literal["areal", "prime-rl", "skyrl", "slime", "tinker", "trl-async", "trl-grpo", "trl-sft", "verl"]


class Preview(BaseModel):
    """The settings of a `BatchReader`, and which trainer it is for. A dataset or a condition says which steps."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dataset: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """`name` or `name@version`."""
    where: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None
    """A condition over the view `steps`."""
    filter: Chosen | None = None
    """The filters of `GET /steps`: the steps that they mean now."""
    at: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    """With a condition: the version of the warehouse."""
    advantage: Estimator = "grpo"
    rewards: dict[Annotated[str, Field(min_length=1, max_length=256)], Real] | None = Field(None, max_length=64)
    """Weight of each reward by name."""
    loss: Literal["token-mean", "sequence-mean", "trajectory-mean"] = "token-mean"
    merge: Literal["tree", "trajectory", "none"] = "tree"
    max_tokens: Count = 65_536
    max_length: Count | None = None
    ranks: Annotated[int, Field(ge=1, le=1024)] = 1
    groups_per_step: Count | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = 0
    on_drift: Literal["fork", "realign", "drop"] = "fork"
    on_error: Literal["raise", "skip"] = "skip"
    """Unlike the reader's own default: a preview shows what would be refused."""
    old_logprobs: bool | None = None
    derived: bool = False
    unended: bool = False
    adapter: Trainer | None = None
    """Show also the fields that this trainer gets."""


class BatchTree(Preview):
    """The same, and what is drawn of the first optimizer step: as the parameters of `GET /prefix-tree`."""

    node: Node | None = None
    by: Width = "tokens"
    budget_px: Pixels = 1200
    limit: Most = 2000


def preview_routes(workers: Workers, listed: Listed) -> APIRouter:
    """Made by a worker, since it may take long: it reads columns of all the steps, and the tokens of one optimizer step."""
    router = APIRouter(tags=["train"])
    answers: dict[int | str, dict[str, Any]] = {
        **{code: RESPONSES[code] for code in (400, 413, 415)},
        404: FOUND[404],
        422: refusal("A setting cannot be what it is, nothing is left to train on, or too many steps are selected."),
        503: refusal("Too many ask at once, or it took too long: come again after Retry-After, or ask for less."),
    }

    @router.post("/batches/preview", openapi_extra=takes_one(Preview), responses=answers)
    async def preview(request: Request) -> Response:
        """What a `BatchReader` with these settings plans, its first optimizer step pack by pack, what is left out and why."""
        asked = await _asked(request, Preview, listed)
        return await workers.answer(request, "preview", asked)

    @router.post("/batches/prefix-tree", openapi_extra=takes_one(BatchTree), responses=answers)
    async def batch_tree(request: Request) -> Response:
        """The prefix trees of the first optimizer step as its packs hold them, drawn like those of `GET /prefix-tree`."""
        asked = await _asked(request, BatchTree, listed)
        del asked["adapter"]  # which changes nothing about the packs
        return await workers.answer(request, "batch-tree", asked)

    return router


async def _asked(request: Request, model: type[Preview], listed: Listed) -> dict[str, Any]:
    """The settings, with a condition in place of a filter. Raises InvalidRecord, Problem, StoreError."""
    said = checked(model, parsed((await read_body(request, _MOST_BYTES)).plain))
    asked = said.model_dump(exclude={"filter"})
    if said.filter is None:
        return asked
    if said.where is not None or said.dataset is not None:
        raise InvalidRecord("filter", "give exactly one of dataset, where, filter")
    meant = await anyio.to_thread.run_sync(listed.over_view, said.filter)
    return asked | {"where": meant, "made_here": True}
