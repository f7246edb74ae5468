"""Opaque cursors: where a page of a list ended.

A cursor is the key of the last row, not a count of rows, so pages neither skip nor repeat when rows arrive in between. Its form is
nobody's business but this module's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

from stepwell.gateway._problems import Problem

__all__ = ["Key", "key_of", "literal", "opaque"]

Key = list[str | int]


def opaque(key: Sequence[str | int]) -> str:
    """The key of a row as a cursor: base64url without padding."""
    return base64.urlsafe_b64encode(json.dumps(key, separators=(",", ":")).encode()).rstrip(b"=").decode()


def key_of(cursor: str, kinds: Sequence[type[str] | type[int]]) -> Key:
    """The key in a cursor, whose parts are of `kinds`. Raises Problem (422) for what this gateway did not hand out."""
    try:
        key = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or [type(part) for part in key] != list(kinds):
        raise Problem(422, "cursor: is none of this list's; start again without one", field="cursor")
    return key


def literal(value: str | int) -> str:
    """A value as an SQL literal. In standard SQL, as DuckDB reads it, a doubled quote is the only escape there is."""
    if isinstance(value, int):
        return str(value)
    if "\x00" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Problem(422, "an identifier must be Unicode text without NUL characters")
    return "'" + value.replace("'", "''") + "'"
