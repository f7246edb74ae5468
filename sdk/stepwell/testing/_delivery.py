"""Puts a reply on the connection: framing, pace and faults as its `Delivery` says."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

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


def frame(events: Sequence[bytes], delivery: Delivery, *, stream: bool, status: int | None = None) -> Framed:
    """Frame a reply: `events` are those of an event stream, or one whole body."""
    status = delivery.status if status is None else status
    media = b"text/event-stream; charset=utf-8" if stream else b"application/json"
    headers = [(b"content-type", media)]
    messages = list(events) if delivery.malformed is None else [delivery.malformed]
    if delivery.crlf and stream:
        messages = [message.replace(b"\n", b"\r\n") for message in messages]
    if delivery.gzip:
        headers.append((b"content-encoding", b"gzip"))
        messages = _compress(messages)
    body = b"".join(messages)
    if not stream:
        headers.append((b"content-length", b"%d" % len(body)))
    if delivery.piece is not None:
        messages = [body[i : i + delivery.piece] for i in range(0, len(body), delivery.piece)]
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
        # The client's going away ends this task wherever it waits, so nothing here polls for it.
        gone = asyncio.ensure_future(receive())
        gone.add_done_callback(lambda _: task.cancel())
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
        messages, delivery = self.framed.messages, self.delivery
        hold_at = min(delivery.hold_after, len(messages) - 1)
        start = {"type": "http.response.start", "status": self.framed.status, "headers": self.framed.headers}
        await send(start)
        for i, message in enumerate(messages):
            await self._pause(i, hold_at)
            room = len(message) if delivery.fail_after is None else delivery.fail_after - len(self._sent)
            if room < len(message):
                await self._abort(scope, send, message[: max(room, 0)])
                return
            self._sent += message
            last = i == len(messages) - 1
            if last:
                on_last()
                self._end(delivery.malformed is None)
            await send({"type": "http.response.body", "body": message, "more_body": not last})

    async def _pause(self, i: int, hold_at: int) -> None:
        if self.delivery.hold is not None and i == hold_at:
            while not self.delivery.hold.is_set():
                await asyncio.sleep(_POLL_SECONDS)
        # Even without a delay the loop turns, for HTTP/2 frames to go out one by one and a departure to be noticed.
        await asyncio.sleep(self.delivery.delay_ms / 1000 if i else 0)

    async def _abort(self, scope: Scope, send: Send, rest: bytes) -> None:
        self._sent += rest
        await send({"type": "http.response.body", "body": rest, "more_body": True})
        self._end(False)
        await asyncio.sleep(_FLUSH_SECONDS)
        abort = scope.get("state", {}).get("abort")
        if abort is None:
            raise ConnectionAbortedError("the scripted reply asked for the connection to be aborted here")
        abort()
