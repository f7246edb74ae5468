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
from stepwell.gateway._openapi import RESPONSES, refusal, takes_fields
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["flush_routes"]

MOST_SECONDS = 600.0
_TAKES = takes_fields(
    {
        "type": "object",
        "properties": {"timeout": {"type": "number", "minimum": 0, "maximum": MOST_SECONDS, "default": 30}},
        "additionalProperties": False,
    },
    keyed=False,
)
_ANSWERS: dict[int | str, dict[str, Any]] = {
    **{code: RESPONSES[code] for code in (400, 413, 415, 503)},
    422: refusal("The timeout is none."),
    504: refusal("Not all of it is committed yet, or what is missing cannot be read any more; `lag` says whose."),
}
_FIRST_PAUSE = 0.02
_LAST_PAUSE = 0.5
_LOOK_SECONDS = 1.0
"""Between looks at whether what is late can come at all."""


def flush_routes(keeper: Keeper, warehouse: LazyWarehouse) -> APIRouter:
    """`POST /flush` with `{"timeout": seconds}` (30 when left out): 200, or 504 naming the producers that lag."""
    router = APIRouter(tags=["submit"])

    @router.post("/flush", openapi_extra=_TAKES, responses=_ANSWERS)
    async def flush(request: Request) -> Response:
        """Wait until everything accepted before this request is committed to the warehouse."""
        timeout = _timeout((await read_body(request, 1024)).plain)
        wanted = await anyio.to_thread.run_sync(keeper.marks)
        lag, trouble, lost = await _wait(wanted, warehouse, keeper, timeout)
        if not lag:
            return json_response({"committed": True})
        if lag.keys() <= lost.keys():
            what = "; ".join(f"{name}: {lost[name]}" for name in lag)
            raise Problem(504, f"all is committed but what cannot be read any more: {what}", lag=lag)
        who = ", ".join(f"{name} ({entry['committed']} of {entry['accepted']})" for name, entry in lag.items())
        detail = f"not committed within {timeout:g} s: {who}" + (f"; {trouble}" if trouble else "")
        raise Problem(504, f"{detail}. Is ingest running?", lag=lag)

    return router


async def _wait(
    wanted: Mapping[str, int], warehouse: LazyWarehouse, keeper: Keeper, timeout: float
) -> tuple[dict[str, dict[str, int]], str | None, Mapping[str, str]]:
    """Who still lags after `timeout` seconds, or as soon as the rest can never come; the last reason the warehouse could not be asked;
    why nothing more can be read of whom.
    """
    deadline, pause = time.monotonic() + timeout, _FIRST_PAUSE
    look, lost = time.monotonic() + _LOOK_SECONDS, dict[str, str]()
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
        if lag and not trouble and time.monotonic() >= look:
            reached = {producer: entry["committed"] for producer, entry in lag.items()}
            lost = await anyio.to_thread.run_sync(keeper.unreadable, reached)
            look = time.monotonic() + _LOOK_SECONDS
        left = deadline - time.monotonic()
        if not lag or left <= 0 or lag.keys() <= lost.keys():
            return lag, trouble, lost
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
