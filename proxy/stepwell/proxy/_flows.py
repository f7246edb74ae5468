"""The calls in flight: what there is to know about each, and waiting until there are none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mitmproxy import connection, http

from stepwell.exchange import Dialect
from stepwell.proxy._config import Route
from stepwell.proxy._tee import Tee
from stepwell.spool import Job


@dataclass(slots=True, eq=False)
class Call:
    """One HTTP request, or one turn of a WebSocket, on its way. Recorded when it is a generation (`dialect`), else only counted."""

    id: str
    client: connection.Client
    url: str
    """As the agent asked, before any route."""
    trajectory_id: str | None = None
    dialect: Dialect | None = None
    socket: Dialect | None = None
    """What the turns of a WebSocket are, when the request asks for one."""
    own: list[tuple[str, str]] = field(default_factory=list)
    """Its headers that are for us (`x-stepwell-…`): recorded, and not forwarded."""
    routes: tuple[Route, ...] = ()
    """Routes that fit host and path and depend on the model, still to be decided on."""
    route: Route | None = None
    response: http.Response | None = None
    tee: Tee | None = None
    exchange_id: str = ""
    recorded: Job | None = None
    """The request on its way to the spool; None while it is not forwarded."""


class Flows:
    """Calls by the id of their flow."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def add(self, call: Call) -> None:
        self._calls[call.id] = call

    def get(self, id: str) -> Call | None:
        return self._calls.get(id)

    def pop(self, id: str) -> Call | None:
        """Take a call out: whoever gets it, and nobody else, has ended it."""
        call = self._calls.pop(id, None)
        if self._waiting and call is not None:
            self._wake()
        return call

    def of(self, client: connection.Client) -> list[Call]:
        """The calls of one client connection."""
        return [call for call in self._calls.values() if call.client is client]

    def count(self, trajectory_id: str) -> int:
        """How many calls of a trajectory are in flight."""
        return sum(call.trajectory_id == trajectory_id for call in self._calls.values())

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    async def idle(self, seconds: float, trajectory_id: str | None = None) -> bool:
        """Wait until no call (of that trajectory) is in flight. False when some still are after so many seconds."""

        def none_left() -> bool:
            return not (self._calls if trajectory_id is None else self.count(trajectory_id))

        if none_left():
            return True
        waiter = (none_left, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter[1]
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(waiter)
        return True

    def _wake(self) -> None:
        for none_left, future in self._waiting:
            if not future.done() and none_left():
                future.set_result(None)
