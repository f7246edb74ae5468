"""The types of the records' fields: what an id, a list of tokens and a free-form value may be."""

from __future__ import annotations

import math
import operator
import sys
from array import array
from collections.abc import Iterable, Set
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, ValidatorFunctionWrapHandler, WrapValidator

from stepwell.sdk._strict import MAX_DEPTH, MAX_JSON_BYTES, strict_json

__all__ = [
    "MAX_DEPTH",
    "MAX_IDS",
    "MAX_JSON_BYTES",
    "MAX_LOGPROB",
    "STAND_IN",
    "CheckedIds",
    "Flag",
    "Id",
    "JsonObject",
    "Logprobs",
    "Messages",
    "Name",
    "Number",
    "Text",
    "TokenIds",
    "Version",
    "checked_ids",
    "packed_ids",
    "strict_json",
]

MAX_IDS = 4_000_000
"""Most token ids in one prompt or response."""
MAX_LOGPROB = 1e-3
"""Rounding can lift the logarithm of 1 a little above 0; more is no probability."""

_HIGHEST = 0 if sys.byteorder == "big" else 3
"""Where the highest byte of a 32-bit integer stands."""


def _plain(value: object) -> object:
    """numpy arrays, torch tensors and Arrow arrays come as they are: their `tolist` gives plain numbers."""
    if isinstance(value, list):
        return value
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Set):
        raise ValueError("is a set, which has neither an order nor anything twice: give a list")
    to_list = getattr(value, "tolist", None) or getattr(value, "to_pylist", None)
    return to_list() if callable(to_list) else value


class CheckedIds(list[int]):
    """A list of token ids that were checked. Whoever stores them takes `packed`, the same as 32-bit integers in the machine's order."""

    __slots__ = ("packed",)

    def __init__(self, ids: Iterable[int], packed: array[int]) -> None:
        super().__init__(ids)
        self.packed = packed


STAND_IN = CheckedIds([0], array("I", [0]))
"""One id in the place of many that were checked already."""


def checked_ids(value: list[Any]) -> CheckedIds | None:
    """The list, if it is one of token ids and nothing else. Looked at by built-ins, not id by id."""
    if type(value) is CheckedIds:
        return value
    return packed_ids(value) if operator.countOf(map(type, value), int) == len(value) else None


def packed_ids(value: list[Any]) -> CheckedIds | None:
    """As `checked_ids`, but what passes for an integer is taken for one, as `True` does: whoever calls knows that there is none."""
    if not 0 < len(value) <= MAX_IDS:
        return None
    try:
        packed = array("I", value)
    except (TypeError, OverflowError):
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


def _integer(value: Any) -> object:
    """numpy's integers count as such, its booleans do not."""
    if isinstance(value, int) or not hasattr(value, "__index__"):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def _number(value: object) -> object:
    """What a program meant by `true`, `"1"` or `""` is not known: taken for a number it would be trained on."""
    if isinstance(_plain(value), (bool, str, bytes)):
        raise ValueError(f"is {value!r:.40}, not a number")
    return value


def _flag(value: object) -> object:
    """A boolean of Python's or numpy's: what `"no"` or 0 is to mean is not guessed."""
    plain = _plain(value)
    if not isinstance(plain, bool):
        raise ValueError(f"is {value!r:.40}, not true or false")
    return plain


Id = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Text = Annotated[str, StringConstraints(max_length=MAX_JSON_BYTES)]
TokenIds = Annotated[
    list[Annotated[int, Field(ge=0, lt=2**31, strict=True), BeforeValidator(_integer)]],
    Field(max_length=MAX_IDS),
    WrapValidator(_ids),
    BeforeValidator(_plain),
]
Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(_number)]
Logprobs = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False, le=MAX_LOGPROB), BeforeValidator(_number)]],
    Field(max_length=MAX_IDS),
    WrapValidator(_logprobs),
    BeforeValidator(_plain),
]
Flag = Annotated[bool, BeforeValidator(_flag)]
Version = Annotated[int, Field(ge=-(2**63), lt=2**63), BeforeValidator(_number)]
JsonObject = Annotated[dict[str, Any], BeforeValidator(strict_json)]
Messages = Annotated[list[dict[str, Any]], BeforeValidator(strict_json)]
