"""Errors as problem documents (RFC 9457), everywhere and in one shape."""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from stepwell.errors import InvalidRecord, SpoolError, StepwellError, StoreError

__all__ = ["Problem", "install", "json_response", "problem_response"]

_log = logging.getLogger(__name__)

RETRY_AFTER = "5"
"""Seconds after which a full spool or an unreachable store is worth another attempt."""


class Problem(StepwellError):
    """A refusal with its HTTP status; `more` becomes members of the problem document."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = dict(headers or {})
        self.more = more

    def response(self) -> Response:
        """Its document."""
        return problem_response(self.status, str(self), headers=self.headers, **self.more)


def json_response(value: object, status: int = 200, media_type: str = "application/json", **headers: str) -> Response:
    """Strict JSON. Half a surrogate pair, as a client's own words may contain, is shown as a question mark."""
    try:
        body = orjson.dumps(value, default=_plain, option=orjson.OPT_UTC_Z)
    except TypeError:
        body = orjson.dumps(_printable(value), default=_plain, option=orjson.OPT_UTC_Z)
    return Response(body, status, headers=headers, media_type=media_type)


def problem_response(status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """A problem document; `type` is left at about:blank, so `title` is the status's own phrase."""
    title = HTTPStatus(status).phrase
    document = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    return json_response(document, status, "application/problem+json", **dict(headers or {}))


def install(app: FastAPI) -> None:
    """Have every error of `app` answered as a problem document."""
    app.add_exception_handler(StepwellError, _expected)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


async def _expected(request: Request, error: Exception) -> Response:
    match error:
        case Problem():
            return error.response()
        case InvalidRecord():
            return problem_response(422, str(error), field=error.field)
        case SpoolError() | StoreError():
            return problem_response(503, str(error), headers={"retry-after": RETRY_AFTER})
        case _:  # nothing the client did
            _log.error("%s %s failed: %s", request.method, request.url.path, error)
            return problem_response(500, str(error))


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem_response(error.status_code, str(error.detail), headers=error.headers)


async def _parameters(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    name = str(first["loc"][-1])
    return problem_response(422, f"{name}: {first['msg']}", field=name)


async def _gone(_request: Request, _error: Exception) -> Response:
    return problem_response(400, "the client went away before its request was complete")


async def _unexpected(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_response(500, "an unexpected error, which the gateway's log explains")


def _plain(value: object) -> object:
    """What a query may answer with beyond JSON's own types: SQL sums are decimals, binary columns bytes."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _printable(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_printable(key): _printable(item) for key, item in value.items()}
        case list():
            return [_printable(item) for item in value]
        case _:
            return value
