"""Puts a reply on the connection: framing, pace and faults as its `Delivery` says."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from stepwell.testing._dialect import Body
from stepwell.testing._script import Delivery

# Time for the connection's writer to hand the last bytes to the kernel before the connection is torn down.
_FLUSH_SECONDS = 0.05
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Framed:
    """The head of a response, and its body as the messages that will be sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    messages: list[bytes]


def frame(body: Body, delivery: Delivery, *, stream: bool, status: int | None = None) -> Framed:
    """Frame an answer: of a stream each part is a message, else its one part is the whole."""
    status = delivery.status if status is None else status
    headers = [(b"content-type", body.media_type.encode("latin-1"))]
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in body.headers.items()]
    messages = list(body.parts) if delivery.malformed is None else [delivery.malformed]
    if delivery.crlf and body.media_type.startswith("text/event-stream"):
        messages = [message.replace(b"\n", b"\r\n") for message in messages]
    if delivery.gzip:
        headers.append((b"content-encoding", b"gzip"))
        messages = _compress(messages)
    data = b"".join(messages)
    if not stream:
        headers.append((b"content-length", b"%d" % len(data)))
    if delivery.piece is not None:
        messages = [data[i : i + delivery.piece] for i in range(0, len(data), delivery.piece)]
    headers += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in delivery.headers.items()]
    return Framed(status, headers, messages or [b""])


def _compress(messages: Sequence[bytes]) -> list[bytes]:
    """gzip, flushed after each message so that a stream stays a stream; the trailer rides on the last."""
    compressor = zlib.compressobj(wbits=31)
    flushed = [compressor.compress(message) + compressor.flush(zlib.Z_SYNC_FLUSH) for message in messages]
    return [*flushed[:-1], flushed[-1] + compressor.flush()]


class DeliveredResponse(Response):
    """Sends framed messages, and says once how it ended.

    `on_end(delivered, sent)` runs *before* the last message is handed over, so that a client that has the whole reply
    finds it in the server's log; `delivered` is False when the reply was aborted by either side. `sent` is the body sent.
    """

    def __init__(self, framed: Framed, delivery: Delivery, on_end: Callable[[bool, bytes], None]) -> None:
        self.framed = framed
        self.delivery = delivery
        self._on_end: Callable[[bool, bytes], None] | None = on_end
        self._sent = bytearray()
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        # The client's going away ends this task wherever it waits, so nothing here polls for it. Our own `gone.cancel()` is no
        # departure: in process the task is the client's, and goes on to its next request.
        gone = asyncio.ensure_future(receive())
        gone.add_done_callback(lambda left: None if left.cancelled() else task.cancel())
        try:
            await self._send_all(scope, send, on_last=lambda: gone.cancel())
        finally:
            gone.cancel()
            self._end(False)

    def _end(self, delivered: bool) -> None:
        if self._on_end is not None:
            on_end, self._on_end = self._on_end, None
            on_end(delivered, bytes(self._sent))

    async def _send_all(self, scope: Scope, send: Send, on_last: Callable[[], object]) -> None:
        async def put(message: bytes, last: bool) -> None:
            if last:
                on_last()
                self._end(self.delivery.malformed is None)
            await send({"type": "http.response.body", "body": message, "more_body": not last})

        await send({"type": "http.response.start", "status": self.framed.status, "headers": self.framed.headers})
        rest = await deliver(self.framed.messages, self.delivery, self._sent, put)
        if rest is not None:
            self._sent += rest
            await put(rest, False)
            self._end(False)
            await tear_down(scope)


async def deliver(
    messages: Sequence[bytes], delivery: Delivery, sent: bytearray, put: Callable[[bytes, bool], Awaitable[None]]
) -> bytes | None:
    """Put messages at the delivery's pace, adding each to `sent`.

    `put` is told which one is the last. None when all were put; else what of the next one still goes out before the connection is
    to be torn down.
    """
    hold_at = min(delivery.hold_after, len(messages) - 1)
    for i, message in enumerate(messages):
        await _pause(delivery, i, hold_at)
        room = len(message) if delivery.fail_after is None else delivery.fail_after - len(sent)
        if room < len(message):
            return message[: max(room, 0)]
        sent += message
        await put(message, i == len(messages) - 1)
    return None


async def _pause(delivery: Delivery, i: int, hold_at: int) -> None:
    if delivery.hold is not None and i == hold_at:
        while not delivery.hold.is_set():
            await asyncio.sleep(_POLL_SECONDS)
    # Even without a delay the loop turns, for HTTP/2 frames to go out one by one and a departure to be noticed.
    await asyncio.sleep(delivery.delay_ms / 1000 if i else 0)


async def tear_down(scope: Scope) -> None:
    """Abort the connection that an ASGI scope is of. Raises `ConnectionAbortedError` where the server gives no means to."""
    await asyncio.sleep(_FLUSH_SECONDS)
    abort = scope.get("state", {}).get("abort")
    if abort is None:
        raise ConnectionAbortedError("the scripted reply asked for the connection to be aborted here")
    abort()
