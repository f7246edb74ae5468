"""Signed webhooks: events that a service posts straight, without the installation's token.

    x-stepwell-timestamp: 1760000000
    x-stepwell-signature: v1=<hex of HMAC-SHA256(secret, "<timestamp>." + body)>

Over the bytes of the body as they are sent. A clock may be off by five minutes. A signature is good once: the same again is refused
(409), as soon as what came with it is kept. While a secret is replaced, several signatures may be given, separated by commas.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from stepwell.gateway._body import NDJSON, read_body
from stepwell.gateway._events import Event
from stepwell.gateway._memory import hashed
from stepwell.gateway._once import ids_of
from stepwell.gateway._openapi import RESPONSES, refusal, takes
from stepwell.gateway._problems import Problem
from stepwell.gateway._take import Look, Way

__all__ = ["TOLERANCE", "Signatures", "webhook_routes"]

TOLERANCE = 300
"""Seconds that the clocks of sender and receiver may differ."""

_VERSION = "v1="
_MOST = 10
"""Signatures that are looked at in one header."""
_TAKES = takes(Event, NDJSON, keyed=False)  # a signature is a key
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: refusal("The signature or the time does not fit."),
    409: refusal("The signature was used before."),
}


class Signatures:
    """Who may post as which source."""

    def __init__(self, secrets: Mapping[str, str | tuple[str, ...]], *, clock: Callable[[], float] = time.time) -> None:
        self._secrets = {
            source: tuple(one.encode() for one in ((known,) if isinstance(known, str) else known))
            for source, known in secrets.items()
        }
        self._clock = clock

    def check(self, source: str, timestamp: str, given: str, body: bytes) -> None:
        """Raises Problem (401), with the same words for an unknown source as for a wrong secret."""
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
            raise Problem(401, "x-stepwell-timestamp: must be the time in whole seconds since 1970")
        signed = timestamp.encode() + b"." + body
        expected = [
            hmac.new(secret, signed, hashlib.sha256).hexdigest().encode() for secret in self._secrets.get(source, ())
        ]
        said = [part.strip().removeprefix(_VERSION).encode() for part in given.split(",")[:_MOST]]
        if sum(hmac.compare_digest(one, right) for one in said for right in expected) == 0:  # none is left out
            raise Problem(401, "x-stepwell-signature: no signature fits source, timestamp, body and secret")
        if abs(self._clock() - int(timestamp)) > TOLERANCE:
            raise Problem(401, f"x-stepwell-timestamp: is more than {TOLERANCE} s away from this machine's clock")


def webhook_routes(way: Way, signatures: Signatures, look: Look) -> APIRouter:
    """`POST /webhooks/{source}`: what `POST /events` takes, signed."""
    router = APIRouter(tags=["submit"])
    under_way: set[bytes] = set()

    @router.post("/webhooks/{source}", openapi_extra=_TAKES, responses=RESPONSES | _REFUSALS)
    async def post_webhook(source: str, request: Request) -> Response:
        """One event, or an array of events, signed with the secret of the source (`gateway.webhooks`)."""
        body = await read_body(request, way.config.max_body_bytes, "json", "ndjson")
        timestamp, signature = (request.headers.get(f"x-stepwell-{part}", "") for part in ("timestamp", "signature"))
        await asyncio.to_thread(signatures.check, source, timestamp, signature, body.raw)
        name = hashed("webhook", source, timestamp, body.raw)
        if name in under_way or name in await asyncio.to_thread(way.memory.known, [name]):
            raise Problem(409, "this signature was used before: sign each attempt with its own time")
        under_way.add(name)
        try:
            response = await way.keep("event", body, look, ids_of(name))
            await asyncio.to_thread(way.memory.note, [name])  # a full spool has raised
            return response
        finally:
            under_way.discard(name)

    return router
