"""`Idempotency-Key`: the same request again is answered as it was the first time, for 24 hours.

The key and the hash of the body are remembered with the answer. Another body under the same key is refused (422), and so is a request
whose first copy is still being worked on (409). Ids that the gateway makes up follow from the key, so that even where an answer was lost
with the process, what was kept is recognised.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
from collections.abc import Awaitable, Callable

from fastapi import Request
from starlette.responses import Response

from stepwell.gateway._body import Body
from stepwell.gateway._memory import HOURS, Answer, Memory, hashed
from stepwell.gateway._problems import Problem
from stepwell.gateway._records import NewId

__all__ = ["HEADER", "Once", "random_ids"]

HEADER = "idempotency-key"

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_FINAL = frozenset({200, 201, 204, 400, 413, 415, 422})
"""What is not worth another attempt. The rest is for now only, and not remembered."""

Work = Callable[[NewId], Awaitable[Response]]


class Once:
    """Answers requests, for one event loop."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._under_way: set[bytes] = set()

    async def answer(self, request: Request, body: Body, work: Work) -> Response:
        """What `work` answers, or what it answered before. Raises Problem: 400 for what is no key, 409, 422."""
        if (key := request.headers.get(HEADER)) is None:
            return await work(random_ids)
        if not _KEY.fullmatch(key):
            raise Problem(400, "Idempotency-Key: must be 1 to 255 printable ASCII characters", field=HEADER)
        scope = request.headers.get("authorization", "")
        name = hashed(scope, request.method, request.url.path, key)
        if name in self._under_way:
            raise Problem(409, "the request with this Idempotency-Key is being worked on", headers={"retry-after": "1"})
        self._under_way.add(name)
        try:
            return await self._answer(name, body, work)
        finally:
            self._under_way.discard(name)

    async def _answer(self, name: bytes, body: Body, work: Work) -> Response:
        asked, before = await asyncio.to_thread(
            lambda: (hashed(body.form, body.coding, body.raw), self._memory.answer(name))
        )
        if before is not None:
            if before.asked != asked:
                detail = f"another body came under this Idempotency-Key within the last {HOURS} hours"
                raise Problem(422, detail, field=HEADER)
            return Response(before.body, before.status, {"idempotency-replayed": "true"}, before.kind)
        try:
            response = await work(ids_of(name))
        except Problem as problem:
            response = problem.response()
        if response.status_code in _FINAL:
            kind = response.headers.get("content-type", "application/json")
            answer = Answer(asked, response.status_code, kind, bytes(response.body))
            await asyncio.to_thread(self._memory.keep, name, answer)
        return response


def random_ids() -> str | None:
    """Leaves it to each record to get an id of its own."""
    return None


def ids_of(name: bytes) -> NewId:
    """Ids that are the same whenever the same request is worked on."""
    numbers = itertools.count()
    return lambda: hashlib.blake2b(name + next(numbers).to_bytes(8, "big"), digest_size=16).hexdigest()
