"""`GET /stream`: steps and events as they are committed, as server-sent events.

Every one has the cursor behind it as its id, with which a client goes on after whatever interrupted it. Nothing is held for a client:
what it has not read yet is in the warehouse. What cannot be begun is answered with a problem; what fails later ends with an event
`problem`. (Annotations are no texts in this module: one of them names what is made inside a function.)
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Annotated

import anyio
import anyio.to_thread
from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from stepwell.errors import StepwellError
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_rows import READ
from stepwell.gateway._stream_feed import Feed, Item, Position
from stepwell.gateway._warehouse import LazyWarehouse

__all__ = ["Streams", "stream_routes"]

MOST_CLIENTS = 32
_PAUSE = 0.5
"""Seconds between two looks for something new."""
_READERS = 2
"""Threads that look at once, for all clients: fewer than there may be readers (`_warehouse.MOST`), so that pages go on meanwhile."""
_RETRY = 2000
"""Milliseconds after which a client that was cut off comes again."""

_NO_LINES = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""What many a client takes for the end of a line, and JSON lets stand."""

LastId = Annotated[
    str | None, Header(max_length=4000, description="The id of the last event that was seen: go on from there.")
]
From = Annotated[str | None, Query(max_length=4000, description="The same, for clients that cannot send the header.")]
Since = Annotated[int | None, Query(ge=0, lt=2**62, description="Begin with what later commits than this one brought.")]
Follow = Annotated[bool, Query(description="Go on with what is committed from now on; else end there.")]


class Streams:
    """The clients that listen, and the word that they are to be let go."""

    def __init__(self) -> None:
        self.clients = 0
        self.ending = False
        """Set by a signal: every stream ends at its next look."""

    @contextmanager
    def one(self) -> Iterator[None]:
        """A client's place. Raises Problem (503) when there is none."""
        if self.clients >= MOST_CLIENTS:
            raise Problem(503, f"{MOST_CLIENTS} clients listen already: come again", headers={"retry-after": "5"})
        self.clients += 1
        try:
            yield
        finally:
            self.clients -= 1


def stream_routes(warehouse: LazyWarehouse, streams: Streams) -> APIRouter:
    """All that can be refused is refused before the answer begins."""
    router = APIRouter(tags=["read"])
    feed, readers = Feed(warehouse), anyio.CapacityLimiter(_READERS)

    async def begin(
        last_event_id: LastId = None, cursor: From = None, since_commit: Since = None
    ) -> AsyncIterator[Position]:
        with streams.one():
            seen = last_event_id or cursor
            yield await anyio.to_thread.run_sync(feed.opened, seen, since_commit, limiter=readers)

    @router.get("/stream", response_class=EventSourceResponse, responses=READ)
    async def get_stream(
        position: Annotated[Position, Depends(begin)], follow: Follow = True
    ) -> AsyncIterator[ServerSentEvent]:
        """Steps (`event: step`) and events (`event: event`) in the order of commit, from now on or from a cursor."""
        yield _event("position", {"commit": position.commit if position.id else position.commit - 1}, position)
        while not streams.ending:
            try:
                items, position = await anyio.to_thread.run_sync(feed.after, position, limiter=readers)
            except StepwellError as error:
                yield _event("problem", {"title": "Service Unavailable", "status": 503, "detail": str(error)}, None)
                return
            for item in items:
                yield _shown(item)
            if not items:
                if not follow:
                    return
                await anyio.sleep(_PAUSE)

    return router


def _shown(item: Item) -> ServerSentEvent:
    return _event(item.kind, item.row, item.position)


def _event(kind: str, value: object, position: Position | None) -> ServerSentEvent:
    data = bytes(json_response(value).body).decode().translate(_NO_LINES)
    cursor = None if position is None else position.cursor()
    return ServerSentEvent(event=kind, raw_data=data, id=cursor, retry=_RETRY if kind == "position" else None)
