"""A request's body, bounded while it is read, as plain values."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from pydantic_core import from_json

from stepwell.gateway._problems import Problem

__all__ = ["parsed", "read_body"]


async def read_body(request: Request, limit: int) -> bytes:
    """The body's bytes. Raises Problem: 413 beyond `limit` (also chunked), 415 for what is not plain JSON."""
    _check_type(request)
    if _declared(request) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def parsed(body: bytes) -> Any:
    """The JSON value. Raises Problem (400) for what is not JSON.

    The parser keeps integers of any size as they are. NaN, infinities and halves of surrogate pairs come through, so that the
    check of each record can refuse them by the field's name instead of the whole request.
    """
    try:
        return from_json(body)
    except ValueError as error:
        return _parsed_leniently(body, error)


def _parsed_leniently(body: bytes, first: ValueError) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    except ValueError:  # UnicodeDecodeError and JSONDecodeError are both; the first parser's words are the better ones
        raise Problem(400, f"the body is not JSON: {first}") from None


def _check_type(request: Request) -> None:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Problem(415, f"the body must be application/json, not {kind[:100]!r}")
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise Problem(415, f"the content encoding {coding[:100]!r} is not supported: send the body plain")


def _declared(request: Request) -> int:
    value = request.headers.get("content-length", "0")
    return int(value) if value.isascii() and value.isdigit() else 0


def _too_large(limit: int) -> Problem:
    # The rest of the body is not read: the connection cannot be used again.
    return Problem(
        413, f"the body is larger than {limit} bytes (gateway.max_body_bytes)", headers={"connection": "close"}
    )
