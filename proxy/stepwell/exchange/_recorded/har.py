"""HTTP archives (HAR 1.2) as browsers, mitmproxy and other recorders write them.

Bodies in an archive are decoded already, while the headers are still those of the wire. Chrome adds the messages of a WebSocket
(`_webSocketMessages`) and what went wrong (`_error`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.exchange._raw import End, Request, Response
from stepwell.exchange._recorded.fields import (
    NotAnExchange,
    as_bytes,
    as_headers,
    as_ns,
    as_object,
    as_status,
    without_codings,
)
from stepwell.exchange._recorded.found import Found, found
from stepwell.exchange._recorded.sockets import Frame, found_in_socket

_BEFORE_ANSWER = ("blocked", "dns", "connect", "send", "wait")
"""Phases until the first byte (`ssl` is a part of `connect`)."""
_MS = 1_000_000


def har_entries(document: Any) -> list[Any] | None:
    """The entries of an archive; None when the document is none."""
    log = document.get("log") if isinstance(document, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    return entries if isinstance(entries, list) else None


def found_in_har(entry: Any) -> Iterator[Found]:
    """The exchange of an entry, or those of its WebSocket.

    Raises:
        NotAnExchange: it is none.
    """
    whole = as_object(entry, "an entry")
    at_ns = as_ns(whole.get("startedDateTime"))
    request = _request(as_object(whole.get("request"), "an entry's request"), at_ns)
    messages = whole.get("_webSocketMessages")
    if isinstance(messages, list):
        yield from found_in_socket(request, _frames(messages))
    else:
        yield found(request, _response(whole, at_ns))


def _request(value: dict[str, Any], at_ns: int) -> Request:
    method, url, post = value.get("method"), value.get("url"), value.get("postData") or {}
    if not isinstance(method, str) or not isinstance(url, str):
        raise NotAnExchange("an entry's request has no method or no URL")
    data = as_object(post, "an entry's postData")
    body = as_bytes(data.get("text"), "an entry's postData", is_base64=data.get("encoding") == "base64")
    return Request(method.upper(), url, without_codings(as_headers(value.get("headers"))), body, at_ns)


def _response(entry: dict[str, Any], at_ns: int) -> Response:
    value = as_object(entry.get("response") or {}, "an entry's response")
    content = as_object(value.get("content") or {}, "an entry's content")
    body = as_bytes(content.get("text"), "an entry's content", is_base64=content.get("encoding") == "base64")
    status, error = as_status(value.get("status")), value.get("_error") or None
    end: End = "complete"
    if status is None or error:
        error = str(error or "the archive holds no answer")[:500]
        end = "client_disconnect" if "ABORTED" in error.upper() else "upstream_error"
    spent = as_object(entry.get("timings") or {}, "an entry's timings")
    waited = sum(_milliseconds(spent.get(phase)) for phase in _BEFORE_ANSWER)
    return Response(
        status=status,
        headers=without_codings(as_headers(value.get("headers"))),
        body=body,
        end=end,
        at_ns=at_ns and at_ns + _milliseconds(entry.get("time")) * _MS,
        first_byte_ns=at_ns + waited * _MS if at_ns and status is not None else None,
        error=error,
        truncated=content.get("text") is None and _milliseconds(content.get("size")) > 0,  # the browser let go of it
    )


def _milliseconds(value: Any) -> int:
    """A number that is not negative (-1: does not apply); 0 for anything else."""
    return round(value) if isinstance(value, (int, float)) and 0 < value < 1e12 else 0


def _frames(messages: list[Any]) -> Iterator[Frame]:
    """The text messages. Others (pings, audio) are no part of a turn."""
    for message in messages:
        value = as_object(message, "a WebSocket message")
        data, time = value.get("data"), value.get("time")
        if value.get("opcode", 1) == 1 and isinstance(data, str):
            at_ns = round(time * 1e9) if isinstance(time, (int, float)) and 0 < time < 1e10 else 0
            yield Frame(value.get("type") == "send", as_bytes(data, "a WebSocket message"), at_ns)
