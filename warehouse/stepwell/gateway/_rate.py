"""Rate limits: a bucket of requests for each client, by address and token."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from stepwell.gateway._memory import hashed
from stepwell.gateway._problems import problem_response

__all__ = ["Buckets", "RateLimit"]

_MOST = 10_000
"""Clients that are told apart; the one that was silent longest is forgotten."""
_BURST = 2.0
"""Seconds' worth of requests that may come at once."""


class Buckets:
    """Each refills at `rate` a second. One event loop."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._full = max(1.0, rate * _BURST)
        self._clock = clock
        self._left: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def wait(self, client: bytes) -> float:
        """0 where the client may go on; else the seconds after which it may."""
        now = self._clock()
        left, since = self._left.pop(client, (self._full, now))
        left = min(self._full, left + (now - since) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return wait


class RateLimit:
    """ASGI middleware: 429 with Retry-After for whoever asks too often."""

    def __init__(self, app: ASGIApp, *, rate: float) -> None:
        self._app = app
        self._buckets = Buckets(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            address, _ = scope.get("client") or ("", 0)
            wait = self._buckets.wait(hashed(address, Headers(scope=scope).get("authorization", "")))
            if wait > 0:
                detail = "too many requests (gateway.rate): come again after Retry-After"
                refusal = problem_response(429, detail, headers={"retry-after": str(math.ceil(wait))})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
