"""mitmproxy's flow dumps, read with mitmproxy itself, which knows the formats of all its versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from stepwell.errors import MissingExtra
from stepwell.exchange import End, Found, Frame, NotAnExchange, Request, Response, found, found_in_socket

if TYPE_CHECKING:
    from mitmproxy import http

_PLAIN = 1
"""The opcode of a text frame."""


def found_in_flows(file: BinaryIO) -> Iterator[Found]:
    """The exchanges of a dump, in its order. Flows that are no HTTP are passed over.

    Raises:
        NotAnExchange: the dump is damaged from here on, or mitmproxy is not installed.
    """
    try:
        from mitmproxy import exceptions, http, io
    except ModuleNotFoundError as error:
        raise NotAnExchange(f"is a mitmproxy flow dump; {MissingExtra(error.name or 'mitmproxy', 'proxy')}") from None
    try:
        for flow in io.FlowReader(file).stream():
            if isinstance(flow, http.HTTPFlow):
                yield from _found(flow)
    except exceptions.FlowReadException as error:
        raise NotAnExchange(f"is a damaged flow dump: {error}") from None


def _found(flow: http.HTTPFlow) -> Iterator[Found]:
    request = Request(
        method=flow.request.method,
        url=flow.request.pretty_url,
        headers=_headers(flow.request.headers),
        body=flow.request.raw_content or b"",
        at_ns=_ns(flow.request.timestamp_start),
        http_version=flow.request.http_version,
    )
    error = flow.error.msg[:500] if flow.error else None
    if flow.websocket is None:
        yield found(request, _response(flow, error))
        return
    gone: End = "client_disconnect" if flow.websocket.closed_by_client else "upstream_error"
    end: End = "aborted" if flow.websocket.timestamp_end is None else gone
    frames = (
        Frame(message.from_client, message.content, _ns(message.timestamp))
        for message in flow.websocket.messages
        if message.type == _PLAIN
    )
    yield from found_in_socket(request, frames, end, error or "the socket ended before the answer did")


def _response(flow: http.HTTPFlow, error: str | None) -> Response:
    answered = flow.response
    end: End = "complete"
    if error or answered is None:
        # What mitmproxy says of a client that hung up; every other error is of the upstream.
        gone: End = "client_disconnect" if "client disconnect" in (error or "").lower() else "upstream_error"
        end = gone if error else "aborted"
    if answered is None:
        return Response(None, [], b"", end, 0, error=error or "the dump holds no answer")
    return Response(
        status=answered.status_code,
        headers=_headers(answered.headers),
        body=answered.raw_content or b"",
        end=end,
        at_ns=_ns(answered.timestamp_end),
        first_byte_ns=_ns(answered.timestamp_start) or None,
        error=error,
        truncated=answered.raw_content is None,
    )


def _headers(headers: http.Headers) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("utf-8", "replace")) for name, value in headers.fields]


def _ns(seconds: float | None) -> int:
    return round(seconds * 1e9) if seconds else 0
