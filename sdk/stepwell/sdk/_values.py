"""The types of the records' fields: what an id, a list of tokens and a free-form value may be."""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, ValidatorFunctionWrapHandler, WrapValidator

__all__ = [
    "MAX_DEPTH",
    "MAX_IDS",
    "MAX_JSON_BYTES",
    "MAX_LOGPROB",
    "CheckedIds",
    "Id",
    "JsonObject",
    "Logprobs",
    "Messages",
    "Name",
    "Number",
    "Text",
    "TokenIds",
    "checked_ids",
    "strict_json",
]

MAX_IDS = 4_000_000
"""Most token ids in one prompt or response."""
MAX_LOGPROB = 1e-3
"""Rounding can lift the logarithm of 1 a little above 0; more is no probability."""
MAX_JSON_BYTES = 64 << 20
"""Most bytes of JSON in one free-form field (messages, tools, metadata, …)."""
MAX_DEPTH = 100
"""Most levels of lists and objects in one free-form field."""

_HIGHEST = 0 if sys.byteorder == "big" else 3
"""Where the highest byte of a 32-bit integer stands."""
_MANY = 64
"""Members of a list from which on it pays to look whether all of them are numbers, and then at the two outermost only."""


def _plain(value: object) -> object:
    """numpy arrays, torch tensors and Arrow arrays come as they are: their `tolist` gives plain numbers."""
    if isinstance(value, list):
        return value
    to_list = getattr(value, "tolist", None) or getattr(value, "to_pylist", None)
    return to_list() if callable(to_list) else value


class CheckedIds(list[int]):
    """A list of token ids that were checked. Whoever stores them takes `packed`, the same as 32-bit integers in the machine's order."""

    __slots__ = ("packed",)

    def __init__(self, ids: Iterable[int], packed: array[int]) -> None:
        super().__init__(ids)
        self.packed = packed


def checked_ids(value: list[Any]) -> CheckedIds | None:
    """The list, if it is one of token ids and nothing else. Looked at by built-ins, not id by id."""
    if type(value) is CheckedIds:
        return value
    if not 0 < len(value) <= MAX_IDS or set(map(type, value)) != {int}:
        return None
    try:
        packed = array("I", value)
    except OverflowError:
        return None
    # What is below 2^31 has no highest bit, as ASCII has none.
    return CheckedIds(value, packed) if packed.tobytes()[_HIGHEST :: packed.itemsize].isascii() else None


def _ids(value: object, checked: ValidatorFunctionWrapHandler) -> object:
    """A list that is not plainly right is checked id by id, which finds the fault."""
    ids = checked_ids(value) if isinstance(value, list) else None
    return checked(value) if ids is None else ids


def _logprobs(value: object, checked: ValidatorFunctionWrapHandler) -> object:
    """As with ids. A sum is finite only where all of its parts are."""
    if type(value) is list and 0 < len(value) <= MAX_IDS and set(map(type, value)) == {float}:
        return value.copy() if math.isfinite(sum(value)) and max(value) <= MAX_LOGPROB else checked(value)
    return checked(value)


def _number(value: object) -> object:
    """What a program meant by `true`, `"1"` or `""` is not known: taken for a number it would be trained on."""
    if isinstance(_plain(value), (bool, str, bytes)):
        raise ValueError(f"is {value!r:.40}, not a number")
    return value


def strict_json(value: object) -> object:
    """Free-form values must survive a round trip through any strict JSON parser and come back as they were.

    No NaN, no lone surrogates, string keys; no integer beyond 64 bits (parsers make floats of those, or fail); not nested so
    deeply that a parser's own limit is met. Raises ValueError.
    """
    if value is None:
        return value
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError("contains half a surrogate pair: not Unicode text") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"is not strict JSON: {error}") from error
    if size > MAX_JSON_BYTES:
        raise ValueError(f"is {size} bytes of JSON; at most {MAX_JSON_BYTES} are taken")
    _check_levels(value)
    return value


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


Id = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Text = Annotated[str, StringConstraints(max_length=MAX_JSON_BYTES)]
TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**31, strict=True)]],
    Field(max_length=MAX_IDS),
    WrapValidator(_ids),
    BeforeValidator(_plain),
]
Logprobs = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False, le=MAX_LOGPROB)]],
    Field(max_length=MAX_IDS),
    WrapValidator(_logprobs),
    BeforeValidator(_plain),
]
Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
JsonObject = Annotated[dict[str, Any], BeforeValidator(strict_json)]
Messages = Annotated[list[dict[str, Any]], BeforeValidator(strict_json)]
