"""JSON texts: as they are submitted, checked as the free-form fields of records are; and as they are kept."""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.sdk.records import MAX_DEPTH, MAX_JSON_BYTES, strict_json

_PLAINLY_FITS = MAX_JSON_BYTES // 8
"""Written as it is counted, a text takes at most eight times its size: 1e15 is 1000000000000000.0."""


def json_of(text: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or not what a free-form field takes (see `strict_json`).
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error}") from None
    few = text.count(b"[") + text.count(b"{") <= MAX_DEPTH
    return value if few and len(text) <= _PLAINLY_FITS else strict_json(value)


def trimmed(text: bytes) -> bytes:
    """A text that orjson wrote, to be kept in memory.

    orjson writes into some kilobytes and cuts off what is left, which leaves a hole behind each text that the next does not fit into:
    a million short ones would take gigabytes.
    """
    return bytes(memoryview(text))


def kept(value: Any) -> bytes:
    """The JSON text of a value, to be kept in memory."""
    return trimmed(orjson.dumps(value))
