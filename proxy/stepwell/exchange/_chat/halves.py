"""JSON of servers that cut a text between the two halves of a character.

A server that counts in UTF-16 sends an emoji as `\\ud83d` in one delta and `\\ude00` in the next. Each alone is no Unicode, which
strict parsers refuse; joined they are the character that was meant.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}|\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def loads(data: bytes) -> Any:
    """The value, with halves of characters where they were sent. Raises orjson.JSONDecodeError when it is no JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if not _HALF.search(data):
            raise
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            pass
        raise


def loads_whole(data: bytes) -> Any:
    """The value of a text that is all there is, without halves of characters: see `loads` and `whole_characters`."""
    try:
        return orjson.loads(data)  # which takes no halves
    except orjson.JSONDecodeError:
        return whole_characters(loads(data))


def has_halves(data: bytes) -> bool:
    """Whether halves of characters are in the text, in pairs or alone."""
    return b"\\u" in data and _HALF.search(data) is not None


def whole_characters(value: Any) -> Any:
    """The value with every two halves joined; a half that stayed alone is U+FFFD. Raises RecursionError at absurd depths."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {whole_characters(key): whole_characters(inner) for key, inner in value.items()}
    return [whole_characters(inner) for inner in value] if isinstance(value, list) else value
