"""An exchange as it crossed the wire, and its form in the spool.

Two entries: the request when it is forwarded, so that a call whose proxy dies still shows; the response when it has ended. Heads
are small JSON, bodies stay the bytes of the wire (also compressed ones), but for credentials (see `_clean_body`): nobody parses anything
while traffic passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from stepwell.exchange._clean import Headers, clean_url, kept_headers
from stepwell.exchange._clean_body import clean_kept
from stepwell.exchange._declared import Declared, declared_of
from stepwell.spool import LOST, Entry, Record

REQUEST = "exchange.request"
RESPONSE = "exchange.response"

_CONTEXT = ("dialect", "trajectory_id", "engine", "added", "client", "request_known")

End = Literal["complete", "client_disconnect", "upstream_error", "aborted"]
"""How the transfer ended: to its last byte; the client hung up; the upstream failed; the capturing process died."""


@dataclass(frozen=True, slots=True)
class Request:
    """The agent's side. Times are ns since the epoch on the producer's clock, here and below; 0 where a recording has none."""

    method: str
    url: str
    headers: Headers
    body: bytes
    at_ns: int
    http_version: str = ""
    truncated: bool = False
    """The body was larger than what capture keeps, and `body` is its beginning only."""


@dataclass(frozen=True, slots=True)
class Response:
    """The upstream's side; `status` is None when no answer came at all."""

    status: int | None
    headers: Headers
    body: bytes
    end: End
    at_ns: int
    first_byte_ns: int | None = None
    error: str | None = None
    truncated: bool = False
    marks: tuple[tuple[int, int], ...] = ()
    """Of the first pieces of the body as it came: bytes before it, and when it came."""
    declared: Declared | None = None
    """The policy declared when it ended."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One raw request with its response, before anyone parsed it."""

    id: str
    dialect: str
    request: Request
    response: Response
    trajectory_id: str | None = None
    """As claimed by the proxy credentials; None for an anonymous agent."""
    engine: str | None = None
    """The kind of server behind the route (`vllm`, …) when a route says so."""
    added: tuple[str, ...] = ()
    """Names of request fields that the route added and the agent did not send."""
    client: str = "proxy"
    """Which way in it came: `proxy`, `sdk`, `import`."""
    declared: Declared | None = None
    """The policy declared when the request was forwarded."""
    request_known: bool = True
    """False for a recording of the answer only: `request` is then the least that its dialect takes."""


def request_entry(exchange_id: str, request: Request, declared: Declared | None = None, **context: Any) -> Entry:
    """The spool entry of a forwarded request. `context`: dialect, trajectory_id, engine, added, client, …"""
    kept = clean_kept(request.body, kept_headers(request.headers), context.get("dialect"))
    if declared is not None:
        context["declared"] = declared.plain()
    head = {
        "method": request.method,
        "url": clean_url(request.url),
        "headers": kept.headers,
        "at_ns": request.at_ns,
        "http_version": request.http_version,
        "truncated": request.truncated or kept.cut,
        **context,
    }
    return Entry(id=exchange_id, kind=REQUEST, head=_json(head), body=kept.body, opens=True)


def response_entry(exchange_id: str, response: Response, dialect: str | None = None) -> Entry:
    """The spool entry that answers `request_entry` of the same id, and is of the same dialect."""
    kept = clean_kept(response.body, kept_headers(response.headers), dialect)
    head: dict[str, Any] = {
        "status": response.status,
        "headers": kept.headers,
        "end": response.end,
        "at_ns": response.at_ns,
        "first_byte_ns": response.first_byte_ns,
        "error": response.error,
        "truncated": response.truncated or kept.cut,
    }
    if len(response.marks) > 1 and len(kept.body) == len(response.body):  # else they point to other places
        head["marks"] = response.marks
    if response.declared is not None:
        head["declared"] = response.declared.plain()
    return Entry(id=f"{exchange_id}.response", kind=RESPONSE, head=_json(head), body=kept.body, ref=exchange_id)


def _json(head: dict[str, Any]) -> bytes:
    """A head is kept whatever bytes a peer put into a header or an error's text: what is no Unicode becomes U+FFFD."""
    try:
        return orjson.dumps(head)
    except orjson.JSONEncodeError:
        return orjson.dumps(_unicode(head))


def _unicode(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, dict):
        return {key: _unicode(inner) for key, inner in value.items()}
    return [_unicode(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def exchange_from(request: Record, response: Record) -> Exchange:
    """The exchange of two spool records; a `LOST` response gives one that was aborted."""
    head = orjson.loads(request.head)
    context = {key: head.pop(key) for key in _CONTEXT if key in head}
    context["added"] = tuple(context.get("added") or ())
    context["declared"] = declared_of(head.pop("declared", None))
    asked = Request(body=request.body, **{**head, "headers": _pairs(head["headers"])})
    return Exchange(id=request.id, request=asked, response=_response(response), **context)


def _response(record: Record) -> Response:
    if record.kind == LOST:
        error = "the capturing process ended before the answer was recorded"
        return Response(None, [], b"", "aborted", record.at_ns, error=error)
    head = orjson.loads(record.head)
    marks = tuple((start, at_ns) for start, at_ns in head.pop("marks", ()))
    declared = declared_of(head.pop("declared", None))
    return Response(body=record.body, marks=marks, declared=declared, **{**head, "headers": _pairs(head["headers"])})


def _pairs(headers: Iterable[list[str]]) -> Headers:
    return [(name, value) for name, value in headers]


def header(headers: Headers, name: str) -> str:
    """The value of a header by its lower-case name, or the empty string."""
    return next((value for key, value in headers if key == name), "")


def with_bodies(exchange: Exchange, request: bytes, response: bytes) -> Exchange:
    """The same exchange with other bodies (decoded, cut, redacted)."""
    if request is exchange.request.body and response is exchange.response.body:  # as most are
        return exchange
    return replace(
        exchange,
        request=replace(exchange.request, body=request),
        response=replace(exchange.response, body=response),
    )
