"""JSON bodies: read as far as they go."""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Response


def request_object(body: bytes) -> dict[str, Any]:
    """The object that a request's body is. Raises Unparseable when it is none."""
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unparseable(f"the request is no JSON: {error}") from None
    if not isinstance(asked, dict):
        raise Unparseable("the request is no JSON object")
    return asked


def is_whole(response: Response) -> bool:
    """Whether the transfer ended as it should and all of it was kept: only then is a body that cannot be read a fault."""
    return response.end == "complete" and not response.truncated


def loosely(body: bytes) -> Any:
    """What an error's body says: its `error` field, the whole value, or its first text."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")[:4096] or "an error without a word"
    return (value.get("error") or value) if isinstance(value, dict) else value


def without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """The fields that are neither named nor null."""
    return {key: kept for key, kept in value.items() if key not in names and kept is not None}
