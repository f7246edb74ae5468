"""Fields of a recording: headers, bodies and times in the forms that recorders write them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import orjson

from stepwell.exchange._clean import Headers


class NotAnExchange(ValueError):
    """A value that should have been a recorded exchange. The message says what it lacks."""


def as_object(value: Any, what: str) -> dict[str, Any]:
    """`value`, which must be a JSON object; raises NotAnExchange, naming it `what`."""
    if not isinstance(value, dict):
        raise NotAnExchange(f"{what} is no JSON object")
    return value


def as_headers(value: Any) -> Headers:
    """Headers from an object (a value may be a list), from pairs, or from HAR's `{name, value}`, in their order."""
    if value is None:
        return []
    pairs = value.items() if isinstance(value, dict) else value
    if not isinstance(pairs, Iterable) or isinstance(pairs, (str, bytes)):
        raise NotAnExchange("its headers are neither an object nor a list")
    return [
        (name, _text(one)) for name, many in map(_pair, pairs) for one in (many if isinstance(many, list) else [many])
    ]


def _pair(item: Any) -> tuple[str, Any]:
    if isinstance(item, dict):
        item = (item.get("name"), item.get("value"))
    if not isinstance(item, (list, tuple)) or len(item) != 2 or not isinstance(item[0], str):
        raise NotAnExchange("one of its headers is no pair of name and value")
    return item[0], item[1]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def as_bytes(value: Any, what: str, *, is_base64: bool = False) -> bytes:
    """A body: text, base64, or JSON that was written into the recording as it is; nothing is the empty body."""
    if value is None:
        return b""
    if is_base64:
        try:
            return base64.b64decode(value)
        except (TypeError, ValueError, binascii.Error) as error:
            raise NotAnExchange(f"{what} is no base64: {error}") from None
    if isinstance(value, str):
        return value.encode(errors="replace")  # half a surrogate pair is nothing that was ever sent
    try:
        return orjson.dumps(value)
    except (TypeError, RecursionError) as error:
        raise NotAnExchange(f"{what} cannot be written as JSON: {error}") from None


def as_status(value: Any) -> int | None:
    """An HTTP status; None for 0 and for what is none, by which recorders mean that no answer came."""
    if isinstance(value, str) and value.isdecimal() and len(value) == 3:
        value = int(value)
    return value if type(value) is int and 100 <= value <= 999 else None


def as_ns(value: Any) -> int:
    """An ISO 8601 time as ns since the epoch, UTC where it names no zone; 0 when it is none."""
    try:
        time = datetime.fromisoformat(value)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1e6) * 1000
    except (TypeError, ValueError, OverflowError):
        return 0


def without_codings(headers: Headers) -> Headers:
    """Without `content-encoding`: the recorder has undone it, and kept the header of the wire."""
    return [(name, value) for name, value in headers if name.lower() != "content-encoding"]
