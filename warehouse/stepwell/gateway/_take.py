"""The way of a request that submits: read, checked, told from what is known, kept, remembered, answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from starlette.responses import Response

from stepwell.gateway._body import Body, Form, read_body
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._declarations import Declarations
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._memory import Memory
from stepwell.gateway._metrics import Metrics
from stepwell.gateway._once import Once
from stepwell.gateway._problems import json_response, problem_response
from stepwell.gateway._records import Checked, NewId

__all__ = ["Look", "Prepare", "Way", "nothing_more"]

Look = Callable[[Body, NewId], Sequence[Checked]]
"""The records of a body, each checked. Takes a while, and runs in a thread."""
Prepare = Callable[[Sequence[Checked]], None]
"""Gives the records that are to be kept their entries, where `Look` did not. Runs in a thread."""


@dataclass(frozen=True, slots=True)
class Way:
    """What every endpoint that takes something in works with."""

    keeper: Keeper
    config: GatewayConfig
    metrics: Metrics
    memory: Memory
    declarations: Declarations
    once: Once

    async def take(
        self, kind: str, request: Request, look: Look, *forms: Form, prepare: Prepare | None = None
    ) -> Response:
        """Answer a request. Raises Problem where nothing of it can be read, SpoolFull and SpoolError where nothing was kept."""
        body = await read_body(request, self.config.max_body_bytes, *forms)
        return await self.once.answer(request, body, lambda new_id: self.keep(kind, body, look, new_id, prepare))

    async def keep(self, kind: str, body: Body, look: Look, new_id: NewId, prepare: Prepare | None = None) -> Response:
        """Keep what is right and new in `body`, and say of each record what became of it."""
        return _answer(await self.results(kind, body, look, new_id, prepare))

    async def results(
        self, kind: str, body: Body, look: Look, new_id: NewId, prepare: Prepare | None = None
    ) -> list[dict[str, Any]]:
        """As `keep`, for an answer of another form."""
        batch = await asyncio.to_thread(self._looked_at, body, look, new_id, prepare or nothing_more)
        fresh = [item for item in batch if item.error is None and not item.known]
        entries = list({id(entry): entry for item in fresh for entry in item.entries}.values())
        if entries:
            news = dict(zip(map(id, entries), await self.keeper.keep(entries), strict=True))
            for item in fresh:
                item.known = not news[id(item.entries[0])]
            await asyncio.to_thread(self.memory.note, [item.key for item in fresh])
        items = [_result(item) for item in batch]
        self.metrics.count(kind, items)
        return items

    def _looked_at(self, body: Body, look: Look, new_id: NewId, prepare: Prepare) -> Sequence[Checked]:
        batch = look(body, new_id)
        right = [item for item in batch if item.error is None]
        known = self.memory.known([item.key for item in right])
        for item in right:
            item.known = item.key in known
            known.add(item.key)  # the second of two in one request
        prepare([item for item in right if not item.known])
        return batch


def nothing_more(items: Sequence[Checked]) -> None:
    """They have their entries."""


def _result(item: Checked) -> dict[str, Any]:
    if item.error is not None:
        return {"id": item.id, "status": "refused", "field": item.error.field, "message": item.error.reason}
    return {"id": item.id, "status": "duplicate" if item.known else "accepted"}


def _answer(items: list[dict[str, Any]]) -> Response:
    refused = [item for item in items if item["status"] == "refused"]
    if items and len(refused) == len(items):
        first = refused[0]
        detail = f"{first['field']}: {first['message']}" if first["field"] else str(first["message"])
        return problem_response(422, detail, items=items)
    return json_response({"items": items})
