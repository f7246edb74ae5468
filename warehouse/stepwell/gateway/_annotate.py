"""`GET /annotations/queue`, `GET /annotations/pairs`: what an author is to judge next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from stepwell.gateway._annotate_pairs import Pairs
from stepwell.gateway._filters import Meant, StepFilters
from stepwell.gateway._judged import Judged, Target
from stepwell.gateway._problems import json_response
from stepwell.gateway._read_listed import Listed, Paging, Source
from stepwell.gateway._read_rows import READ, Order
from stepwell.gateway._read_steps import STEP, STEP_KEY
from stepwell.gateway._sorting import Columns, order_of

__all__ = ["annotation_routes"]

_STEPS = Source("steps", STEP_KEY, "step_id", STEP)
_BY_COMMIT: Columns = {"commit": ('"commit"', "number")}
HOLD = 600.0
"""Seconds for which a step that was handed out to one author is not given to another."""
_HELD = 10_000
"""Steps handed out under one name that are remembered."""
Who = Annotated[str, Field(min_length=1, max_length=256, description="Who judges.")]
What = Annotated[str, Field(min_length=1, max_length=256, description="Under which name: `quality`, `style`, ….")]


class _Whose(BaseModel):
    author: Who
    name: What


class QueueQuery(StepFilters, Paging, _Whose):
    """Which steps are to be judged, by whom, and under which name."""

    limit: int = Field(20, ge=1, le=500, description="Most steps to return.")
    order: Order = Field("oldest", description="In the order of commit.")
    shared: bool = Field(
        False,
        description="Several authors share the work: nobody gets what anybody has judged or, for ten minutes, what another was given.",
    )


class PairsQuery(StepFilters, _Whose):
    """Of which steps pairs are to be compared, by whom, and under which name."""

    limit: int = Field(10, ge=1, le=100, description="Most pairs to return.")
    cursor: str | None = Field(None, max_length=4000, description="The `next` of the page before.")


def annotation_routes(listed: Listed, judged: Judged) -> APIRouter:
    """Judgements are submitted as any feedback is; what was accepted is not given again, though it is not committed yet."""
    router = APIRouter(tags=["curate"])
    held, pairs = Held(), Pairs(listed, judged)

    @router.get("/annotations/queue", responses=READ)
    def get_queue(asked: Annotated[QueueQuery, Query()]) -> Response:
        """The next steps that this author has not judged under this name, and how many are `left`."""
        meant = listed.meant(asked)
        order = order_of("-commit" if asked.order == "newest" else "commit", _BY_COMMIT, list(STEP_KEY))

        def page(besides: list[str]) -> dict[str, Any]:
            table, waiting = judged.by(asked.name, None if asked.shared else asked.author)
            left = without(meant, table, [*waiting, *(Target("step", step) for step in besides)])
            answer = listed.page(_STEPS, left, order, cursor=asked.cursor, limit=asked.limit, count=True)
            count = answer.pop("count")
            return {**answer, "left": count["count"], "exact": count["exact"], "at": count["at"]}

        return json_response(held.handed_out(asked.name, asked.author, page) if asked.shared else page([]))

    @router.get("/annotations/pairs", responses=READ)
    def get_pairs(asked: Annotated[PairsQuery, Query()]) -> Response:
        """The next pairs of answers to one prompt, of one prompt group, that this author has not compared under this name."""
        meant = listed.meant(asked)
        return json_response(pairs.page(meant, asked.name, asked.author, asked.cursor, asked.limit))

    return router


def without(meant: Meant, judged: Any, waiting: list[Target]) -> Meant:
    """What is meant, but for steps that were judged, by their own id or by the provider's of the answer."""
    import pyarrow as pa

    more = pa.table({"kind": [one.kind for one in waiting], "id": [one.id for one in waiting]},
                    pa.schema([("kind", pa.string()), ("id", pa.string())]))  # fmt: skip
    all_of_them = pa.concat_tables([judged.select(["kind", "id"]).cast(more.schema), more])
    conditions = [
        "step_id NOT IN (SELECT id FROM _judged WHERE kind = 'step')",
        "coalesce(response_id NOT IN (SELECT id FROM _judged WHERE kind = 'response'), true)",
    ]
    return replace(meant, conditions=[*meant.conditions, *conditions], within={**meant.within, "_judged": all_of_them})


class Held:
    """Which author was handed which step out lately, by name. Any thread; of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, dict[str, tuple[str, float]]] = {}

    def handed_out(self, name: str, author: str, page: Callable[[list[str]], dict[str, Any]]) -> dict[str, Any]:
        """A page of what no other author holds; what is on it is this one's for a while. One at a time, so that no two get the same."""
        with self._lock:
            now = self._clock()
            mine = {step: one for step, one in self._until.get(name, {}).items() if one[1] > now}
            answer = page([step for step, (whose, _) in mine.items() if whose != author])
            mine |= {item["step_id"]: (author, now + HOLD) for item in answer["items"]}
            self._until[name] = dict(list(mine.items())[-_HELD:])
            self._until = {
                named: some for named, some in self._until.items() if any(until > now for _, until in some.values())
            }
            return answer
