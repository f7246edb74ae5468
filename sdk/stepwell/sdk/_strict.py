"""Free-form values: what of JSON any strict parser gives back as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

MAX_JSON_BYTES = 64 << 20
"""Most bytes of JSON in one free-form field (messages, tools, metadata, …)."""
MAX_DEPTH = 100
"""Most levels of lists and objects in one free-form field."""

_MANY = 64
"""Members of a list from which on it pays to look whether all of them are numbers, and then at the two outermost only."""
_PER_BYTE = 6
"""Most bytes that a byte of text takes as it is written: a control character takes them."""
_PER_VALUE = 32
"""Bytes that a number takes as it is written, or what stands around a text, a list or an object: no more than these."""


def strict_json(value: object) -> object:
    """Free-form values must survive a round trip through any strict JSON parser and come back as they were.

    No NaN, no lone surrogates, string keys; no integer beyond 64 bits (parsers make floats of those, or fail); not nested so
    deeply that a parser's own limit is met. Raises ValueError.
    """
    if value is not None and not _is_plain(value):
        _check_written(value)
        _check_levels(value)
    return value


def _is_plain(value: object) -> bool:
    """Whether a value is strict JSON at first sight: of JSON's own types, and so small that nobody needs to count its bytes.

    What is not may be strict all the same, which costs several times as much to find out. Sizes are counted before anything is
    gathered: a value that holds itself would not end.
    """
    level: list[Any] = [value]
    size = _PER_VALUE
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        texts: list[str] = []
        nested = False
        for item in level:
            kind = type(item)
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                nested = True
                size += _PER_VALUE * (len(item) + 1)
                if size > MAX_JSON_BYTES:
                    return False
                if kind is dict:
                    texts.extend(item)
                    below.extend(item.values())
                else:
                    below.extend(_outermost(item) if len(item) > _MANY else item)
            elif not _is_plain_scalar(item):
                return False
        try:
            size += _PER_BYTE * len("".join(texts).encode())
        except (TypeError, UnicodeEncodeError):  # a key that is no text; half a surrogate pair
            return False
        if not nested:
            return size <= MAX_JSON_BYTES
        level = below
    return False


def _is_plain_scalar(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return -(2**63) <= value < 2**64 if type(value) is int else value is None or type(value) is bool


def _check_written(value: object) -> None:
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError("contains half a surrogate pair: not Unicode text") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"is not strict JSON: {error}") from error
    if size > MAX_JSON_BYTES:
        raise ValueError(f"is {size} bytes of JSON; at most {MAX_JSON_BYTES} are taken")


def _check_levels(value: object) -> None:
    level, depth = [value], 0
    while level:
        below: list[object] = []
        nested = False
        for item in level:
            if isinstance(item, str):
                continue
            if isinstance(item, dict):
                nested = True
                below.extend(item.values())
            elif isinstance(item, (list, tuple)):
                nested = True
                below.extend(_outermost(item) if len(item) > _MANY else item)
            elif isinstance(item, int) and not -(2**63) <= item < 2**64:
                raise ValueError("contains an integer of more than 64 bits; send it as a string")
        depth += nested
        if depth > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} levels deep")
        level = below


def _outermost(items: Sequence[Any]) -> Sequence[Any]:
    """The least and the greatest of a list that holds integers and nothing else, as lists of token ids do; else all of it."""
    return (min(items), max(items)) if set(map(type, items)) == {int} else items
