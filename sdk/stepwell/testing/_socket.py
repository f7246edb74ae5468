"""The Responses API over a WebSocket: each `response.create` of the client's is a call, answered event by event.

A `Delivery` counts messages and bytes here as it does in a stream, but a message goes out whole or not at all. `piece`, `gzip` and `crlf`
have no meaning on a socket, and an error status becomes an `error` event, which leaves the socket open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.websockets import WebSocket, WebSocketDisconnect

from stepwell.testing._delivery import deliver, tear_down
from stepwell.testing._exchange import Prepared

Answer = Callable[[bytes], Awaitable[Prepared]]


async def serve_socket(socket: WebSocket, answer: Answer) -> None:
    """Answer turn by turn until the client leaves."""
    await socket.accept()
    turns: asyncio.Queue[bytes] = asyncio.Queue()
    # Read ahead, so that a client that leaves in the middle of an answer is noticed.
    reading = asyncio.create_task(_read(socket, turns))
    answering = asyncio.create_task(_answer_all(socket, turns, answer))
    try:
        await asyncio.wait({reading, answering}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (reading, answering):
            task.cancel()
        ended = await asyncio.gather(reading, answering, return_exceptions=True)
    failures = [error for error in ended if isinstance(error, Exception)]
    if failures:
        raise failures[0]


async def _read(socket: WebSocket, turns: asyncio.Queue[bytes]) -> None:
    try:
        while True:
            turns.put_nowait((await socket.receive_text()).encode())
    except WebSocketDisconnect:
        return


async def _answer_all(socket: WebSocket, turns: asyncio.Queue[bytes], answer: Answer) -> None:
    while await _answer_one(socket, await answer(await turns.get())):
        pass


async def _answer_one(socket: WebSocket, prepared: Prepared) -> bool:
    """Send one answer; False when the connection was to break in it."""
    delivery, sent, ended = prepared.delivery, bytearray(), False
    messages = prepared.body.parts if delivery.malformed is None else [delivery.malformed]

    async def put(message: bytes, last: bool) -> None:
        nonlocal ended
        if last:
            ended = True
            prepared.on_end(delivery.malformed is None, bytes(sent))
        await socket.send_text(message.decode(errors="replace").removesuffix("\n"))

    try:
        rest = await deliver(messages, delivery, sent, put)
    finally:
        if not ended:
            prepared.on_end(False, bytes(sent))
    if rest is not None:
        await tear_down(socket.scope)
    return rest is None
