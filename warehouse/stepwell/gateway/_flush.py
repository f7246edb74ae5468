"""The barrier: return when everything accepted so far can be read from the warehouse."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request
from starlette.responses import Response

from stepwell.errors import StepwellError
from stepwell.gateway._body import parsed, read_body
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["flush_routes"]

MOST_SECONDS = 600.0
_FIRST_PAUSE = 0.02
_LAST_PAUSE = 0.5


def flush_routes(keeper: Keeper, warehouse: LazyWarehouse) -> APIRouter:
    """`POST /flush` with `{"timeout": seconds}` (30 when left out): 200, or 504 naming the producers that lag."""
    router = APIRouter(tags=["submit"])

    @router.post("/flush")
    async def flush(request: Request) -> Response:
        """Wait until everything accepted before this request is committed to the warehouse."""
        timeout = _timeout((await read_body(request, 1024)).plain)
        wanted = await anyio.to_thread.run_sync(keeper.marks)
        lag, trouble = await _wait(wanted, warehouse, timeout)
        if not lag:
            return json_response({"committed": True})
        who = ", ".join(f"{name} ({entry['committed']} of {entry['accepted']})" for name, entry in lag.items())
        detail = f"not committed within {timeout:g} s: {who}" + (f"; {trouble}" if trouble else "")
        raise Problem(504, f"{detail}. Is ingest running?", lag=lag)

    return router


async def _wait(
    wanted: Mapping[str, int], warehouse: LazyWarehouse, timeout: float
) -> tuple[dict[str, dict[str, int]], str | None]:
    """Who still lags after `timeout` seconds, and the last reason the warehouse could not be asked."""
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    committed: Mapping[str, int] = {}
    while True:
        trouble = None
        try:
            committed = await anyio.to_thread.run_sync(warehouse.marks)
        except StepwellError as error:  # it may not have been made yet, or be out of reach for a moment
            trouble = str(error)
        lag = {
            producer: {"accepted": number, "committed": committed.get(producer, 0)}
            for producer, number in wanted.items()
            if committed.get(producer, 0) < number
        }
        left = deadline - time.monotonic()
        if not lag or left <= 0:
            return lag, trouble
        await anyio.sleep(min(pause, left))
        pause = min(_LAST_PAUSE, pause * 1.5)


def _timeout(body: bytes) -> float:
    value: Any = parsed(body) if body.strip() else {}
    if not isinstance(value, dict) or set(value) - {"timeout"}:
        raise Problem(422, 'the body must be {"timeout": seconds}, or be left out', field="timeout")
    timeout = value.get("timeout", 30.0)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 <= timeout <= MOST_SECONDS:
        raise Problem(422, f"timeout: must be a number of seconds from 0 to {MOST_SECONDS:g}", field="timeout")
    return float(timeout)
