"""One call of a wrapped client: what went over the wire, and the exchange that becomes of it."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from stepwell.sdk._heads import claims, kept_headers, kept_url, without_secrets
from stepwell.sdk._item import Item

__all__ = ["MAX_KEPT", "Call", "End", "exchange"]

MAX_KEPT = 64 << 20
"""Most bytes of an answer that are kept; a call that says more is not recorded, and counted."""

End = Literal["complete", "client_disconnect", "upstream_error"]
Headers = Sequence[tuple[str, str]]

_TAIL = 4096
_LAST = (b"[DONE]", b"message_stop", b"response.completed", b"response.incomplete", b"response.failed")
"""What the last event of a stream says. Clients stop reading there and hang up, which cuts nothing off."""


class Call:
    """Collects one call. `done` gets the exchange, or the reason for which there is none, and never raises."""

    def __init__(
        self, url: str, headers: Headers, body: bytes, whose: Mapping[str, Any], done: Callable[[Item | str], None]
    ) -> None:
        self._url = url
        self._headers = headers
        self._body = body
        self._whose = whose
        self._done: Callable[[Item | str], None] | None = done
        self._started = time.time_ns()
        self._first_byte: int | None = None
        self._status: int | None = None
        self._answered: Headers = ()
        self._pieces: list[bytes] = []
        self._size = 0

    def answered(self, status: int, headers: Headers) -> None:
        self._status, self._answered = status, headers

    def got(self, piece: bytes) -> None:
        """A piece of the answer, as it came."""
        if self._first_byte is None:
            self._first_byte = time.time_ns()
        self._size += len(piece)
        if self._size <= MAX_KEPT:
            self._pieces.append(bytes(piece))

    def end(self, how: End, error: BaseException | None = None) -> None:
        """The call is over; what comes after the first end is the echo of it."""
        if self._done is None:
            return
        try:
            self._tell(self._exchange(how, error))
        except Exception as problem:  # noqa: BLE001 - the boundary of recording: the caller's own call goes on
            self.lost(f"{type(problem).__name__}: {problem}")

    def lost(self, why: str) -> None:
        """The call cannot be recorded."""
        self._tell(why)

    def _tell(self, outcome: Item | str) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(outcome)

    def _exchange(self, how: End, error: BaseException | None) -> Item | str:
        if self._size > MAX_KEPT:
            return f"its answer is larger than what is kept ({MAX_KEPT} bytes)"
        answer = b"".join(self._pieces)
        if how == "client_disconnect" and self._said_all(answer):
            how = "complete"
        head = {
            "status": self._status,
            "response_headers": self._answered,
            "end": how,
            "error": None if error is None else f"{type(error).__name__}: {error}"[:1000],
            "started_ns": self._started,
            "first_byte_ns": self._first_byte,
            "finished_ns": time.time_ns(),
        }
        return exchange(None, None, self._url, self._headers, self._body, answer, self._whose, head)

    def _said_all(self, answer: bytes) -> bool:
        if any(name.lower() == "content-encoding" and value in ("gzip", "deflate") for name, value in self._answered):
            try:
                answer = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(answer)
            except zlib.error:
                return False
        return any(last in answer[-_TAIL:] for last in _LAST)


def exchange(
    id: str | None,
    dialect: str | None,
    url: str,
    headers: Headers,
    request: bytes,
    response: bytes,
    whose: Mapping[str, Any],
    head: Mapping[str, Any],
) -> Item:
    """The record of a call: `whose` are fields of a step, `head` what is said of the answer. No credential is in it.

    Raises InvalidRecord: metadata that cannot be said in a header.
    """
    id = os.urandom(16).hex() if id is None else id
    own = kept_headers(headers)
    said = {name for name, _ in own}
    own += [(name, value) for name, value in claims(whose) if name not in said]
    record = {
        "exchange_id": id,
        "dialect": dialect,
        "method": "POST",
        "url": kept_url(url),
        "request_headers": own,
        "trajectory_id": None if "x-stepwell-trajectory" in said else whose.get("trajectory_id"),
        **head,
        "response_headers": kept_headers(head["response_headers"]),
    }
    bodies = (
        ("request_body", "", without_secrets(request, url)),
        ("response_body", "", without_secrets(response, url)),
    )
    return Item("exchange", id, json.dumps(record).encode(), bodies)
