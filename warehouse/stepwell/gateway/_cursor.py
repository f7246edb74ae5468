"""Opaque cursors: where a page of a list ended.

A cursor is the key of the last row, not a count of rows, so pages neither skip nor repeat when rows arrive in between. Its form is
nobody's business but this module's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from stepwell.gateway._problems import Problem

__all__ = ["Key", "is_storable", "key_of", "literal", "opaque", "said_in"]

Key = list[str | int]

_MOST_BITS = 63
"""Of a number in a column, without its sign: databases take no greater ones."""


def opaque(key: Sequence[str | int | float | None]) -> str:
    """The key of a row as a cursor: base64url without padding."""
    said = json.dumps(key, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def said_in(cursor: str) -> list[Any]:
    """What `opaque` made a cursor of, or anything that somebody else did; nothing where it is no such thing."""
    try:
        said = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        return []
    return said if isinstance(said, list) else []


def key_of(cursor: str, kinds: Sequence[type[str] | type[int]]) -> Key:
    """The key in a cursor, whose parts are of `kinds`. Raises Problem (422) for what this gateway did not hand out."""
    key: Key = said_in(cursor)
    if [type(part) for part in key] != list(kinds) or not all(map(is_storable, key)):
        raise Problem(422, "cursor: is none of this list's; start again without one", field="cursor")
    return key


def literal(value: str | int) -> str:
    """A value as an SQL literal. In standard SQL, as DuckDB reads it, a doubled quote is the only escape there is."""
    if isinstance(value, int):
        return str(value)
    if not is_storable(value):
        raise Problem(422, "an identifier must be Unicode text without NUL characters")
    return "'" + value.replace("'", "''") + "'"


def is_storable(value: str | int) -> bool:
    """Whether a database can hold it."""
    if isinstance(value, int):
        return value.bit_length() <= _MOST_BITS
    return "\x00" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
