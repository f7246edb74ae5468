"""Exchanges as JSON: `{request: {method, url, headers, body | body_b64}, response: {status, headers, body | body_b64}}`.

`request` may be null or absent (only the answer was recorded), and so may `response` (none came). An `id` of its own is kept as the
exchange's name; an `endpoint` (`POST /v1/messages`) says what an answer without request may be one to. A body is text, base64 of its
bytes, or JSON as it is.
"""

from __future__ import annotations

from typing import Any

from stepwell.exchange._clean import Headers
from stepwell.exchange._raw import Request, Response
from stepwell.exchange._recorded.fields import (
    NotAnExchange,
    as_bytes,
    as_headers,
    as_object,
    as_status,
    without_codings,
)
from stepwell.exchange._recorded.found import Found, found


def found_in_json(value: Any) -> Found:
    """The exchange of one JSON object.

    Raises:
        NotAnExchange: it is none.
    """
    whole = as_object(value, "it")
    asked, answered = whole.get("request"), whole.get("response")
    if asked is None and answered is None:
        raise NotAnExchange("it has neither a request nor a response")
    request = None if asked is None else _request(as_object(asked, "its request"))
    return found(request, _response(answered), _text(whole, "id") or None, _text(whole, "endpoint"))


def _request(value: dict[str, Any]) -> Request:
    method, url = value.get("method"), value.get("url")
    if not isinstance(method, str) or not isinstance(url, str):
        raise NotAnExchange("its request has no method or no URL")
    body, headers = _body(value, "the request's body")
    return Request(method.upper(), url, headers, body, 0)


def _response(value: Any) -> Response:
    if value is None:
        return Response(None, [], b"", "aborted", 0, error="the recording holds no answer")
    answered = as_object(value, "its response")
    status = as_status(answered.get("status"))
    if status is None and not answered.keys() & {"body", "body_b64"}:
        raise NotAnExchange("its response has neither an HTTP status nor a body")
    body, headers = _body(answered, "the response's body")
    if status is None and not body:
        return Response(None, headers, b"", "upstream_error", 0, error="the recording holds no answer")
    return Response(status or 200, headers, body, "complete", 0)


def _body(value: dict[str, Any], what: str) -> tuple[bytes, Headers]:
    """The body, and the headers that are true of it: text is never compressed, whatever the wire was."""
    headers = as_headers(value.get("headers"))
    if value.get("body_b64") is not None:
        return as_bytes(value["body_b64"], what, is_base64=True), headers
    return as_bytes(value.get("body"), what), without_codings(headers)


def _text(value: dict[str, Any], field: str) -> str:
    text = value.get(field)
    return text if isinstance(text, str) else ""
