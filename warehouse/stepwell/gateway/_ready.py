"""`GET /ready`: whether what is submitted can be kept, and what is kept can be read."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from stepwell.errors import StepwellError
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._problems import RETRY_AFTER, json_response
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["ready_routes"]

_PATIENCE = 5.0
"""Seconds that spool and store are given, and for which an answer of the store counts."""
_FULL = 0.98


def ready_routes(keeper: Keeper, config: GatewayConfig, warehouse: LazyWarehouse) -> APIRouter:
    """No token is asked: it says yes or no, and which of two parts is meant."""
    router = APIRouter(tags=["about"])
    store = _Store(warehouse)

    @router.get("/ready", responses={503: {"description": "The spool is full or stuck, or the store cannot be read."}})
    async def ready() -> Response:
        """200 when the spool takes records and the store can be read, else 503. Submissions need the spool only."""
        spool, stored = await asyncio.gather(_spool(keeper, config), store.state())
        good = spool == stored == "ok"
        state: dict[str, Any] = {"status": "ready" if good else "not ready", "spool": spool, "store": stored}
        return json_response(state) if good else json_response(state, 503, **{"retry-after": RETRY_AFTER})

    return router


async def _spool(keeper: Keeper, config: GatewayConfig) -> str:
    if keeper.writer.spool.bytes >= _FULL * config.max_spool_bytes:
        return "full"
    try:
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(keeper.writer.submit())), _PATIENCE)
    except TimeoutError:
        return "stuck"
    except StepwellError:
        return "closed"
    return "ok"


class _Store:
    """Asked at most once in a while, and by one at a time, however often the probe comes."""

    def __init__(self, warehouse: LazyWarehouse) -> None:
        self._warehouse = warehouse
        self._asked: asyncio.Task[str] | None = None
        self._until = 0.0

    async def state(self) -> str:
        if self._asked is None or (self._asked.done() and time.monotonic() >= self._until):
            self._asked = asyncio.create_task(self._ask())
        try:
            return await asyncio.wait_for(asyncio.shield(self._asked), _PATIENCE)
        except TimeoutError:
            return "slow"

    async def _ask(self) -> str:
        try:
            await asyncio.to_thread(self._warehouse.marks)
            state = "ok"
        except StepwellError:
            state = "unreachable"
        self._until = time.monotonic() + (_PATIENCE if state == "ok" else 0.5)
        return state
