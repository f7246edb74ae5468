"""Token ids and logprobs, taken over as packed numbers without an object per token.

Lists and tuples, and whatever shows its memory (`array.array`, numpy arrays): 32- or 64-bit integers, floats of either width. What is
not plainly right is left to the record's own check, which looks at each number and names the one at fault.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from struct import error, pack
from typing import Any

from stepwell.sdk._item import Part

__all__ = ["NAMES", "packed"]

NAMES = ("prompt_ids", "response_ids", "logprobs")

_MAX = 4_000_000
"""As `records.MAX_IDS`, which cannot be imported without pydantic."""
_BIG = int(sys.byteorder == "big")
_SUSPECT = {code: (array(code, [0]).tobytes(), array(code, [1]).tobytes()) for code in "Id"}
"""What booleans look like as numbers."""
_BOOLEANS = frozenset({"bool", "bool_"})
"""Python's, and numpy's of either generation."""
_TOP4, _TOP8 = (0, 0) if _BIG else (3, 7)
"""Where the highest byte of a number stands."""
# The highest byte of a float is its sign and its exponent but for the last bits. These are of numbers that are finite (below
# 2^127 and 2^1009) and, where positive, below 2^-12 and 2^-15: logarithms of probabilities, with what rounding adds to 0.
_LOGPROBS = {"f": bytes([*range(0x3A), *range(0x80, 0xFF)]), "d": bytes([*range(0x3F), *range(0x80, 0xFF)])}


def packed(fields: Mapping[str, Any]) -> tuple[Part, ...] | None:
    """Copies of a step's ids and logprobs, ready to be sent; None when they have to be looked at one by one, or are not there."""
    prompt, response, logprobs = fields.get("prompt_ids"), fields.get("response_ids"), fields.get("logprobs")
    if prompt is None or response is None:
        return None
    if (prompt := _ids(prompt)) is None or (response := _ids(response)) is None:
        return None
    ids = ("prompt_ids", "I", prompt), ("response_ids", "I", response)
    if logprobs is None:
        return ids
    if (numbers := _logprobs(logprobs)) is None or 4 * len(numbers[1]) != array(numbers[0]).itemsize * len(response):
        return None
    return (*ids, ("logprobs", *numbers))


def _ids(value: Any) -> bytes | None:
    """As 32-bit integers."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and type(value) is numpy.ndarray:
        return _ids_of_numpy(numpy, value)
    found: bytes | None
    if isinstance(value, (list, tuple)):
        found = _listed("I", value)
    elif (memory := _memory(value, "iIlLqQ")) is None:
        return None
    elif memory[0] == 4:
        found = memory[1]
    elif numpy is not None:
        return _ids_of_numpy(numpy, numpy.frombuffer(memory[1], "u8"))
    else:
        found = _narrow(memory[1])
    # What is below 2^31 has no highest bit, as ASCII has none.
    return found if found is not None and found[_TOP4::4].isascii() else None


def _ids_of_numpy(numpy: Any, value: Any) -> bytes | None:
    """The bits of all of them together tell whether any has one that no id has."""
    kind = value.dtype
    if value.ndim != 1 or not 0 < value.size <= _MAX or kind.kind not in "iu" or not kind.isnative:
        return None
    if not 0 <= int(numpy.bitwise_or.reduce(value)) < 2**31:
        return None
    if kind.itemsize == 8 and value.flags.c_contiguous:  # every second half is the number: one copy less
        return bytes(value.view("u4")[_BIG::2].tobytes())
    return bytes(value.astype("u4").tobytes())


def _logprobs(value: Any) -> tuple[str, bytes] | None:
    """As floats, of which width."""
    if isinstance(value, (list, tuple)):
        listed = _listed("d", value)
        if listed is None:
            return None
        code, found = "d", listed
    else:
        if (memory := _memory(value, "fd")) is None:
            return None
        code, found = "f" if memory[0] == 4 else "d", memory[1]
    top = found[_TOP4::4] if code == "f" else found[_TOP8::8]
    return (code, found) if not top.translate(None, _LOGPROBS[code]) else None


def _listed(code: str, value: list[Any] | tuple[Any, ...]) -> bytes | None:
    """Packed is whatever counts as such a number. Of that only booleans are meant otherwise, and those are 0 or 1."""
    if not 0 < len(value) <= _MAX:
        return None
    try:  # of the two ways each is the faster one for its numbers
        found = array(code, value).tobytes() if code == "I" else pack(f"{len(value)}d", *value)
    except (TypeError, OverflowError, error):
        return None
    # To ask each member for its type takes longer than all else, so that is left to lists in which these bytes are.
    zero, one = _SUSPECT[code]
    if zero in found or one in found:
        return found if _BOOLEANS.isdisjoint(kind.__name__ for kind in set(map(type, value))) else None
    return found


def _narrow(wide: bytes) -> bytes | None:
    """64-bit integers as 32-bit ones; None when one does not fit. Without numpy, which is five times faster."""
    halves = memoryview(wide).cast("I")
    high, low = (halves[_BIG ^ 1 :: 2].tobytes(), halves[_BIG::2].tobytes())
    return low if high.count(0) == len(high) else None


def _memory(value: Any, formats: str) -> tuple[int, bytes] | None:
    """The bytes of each number of a vector of such numbers, and a copy of its memory."""
    try:
        with memoryview(value) as view:
            right = view.ndim == 1 and 0 < len(view) <= _MAX and len(view.format) == 1 and view.format in formats
            return (view.itemsize, view.tobytes()) if right and view.itemsize in (4, 8) else None
    except (TypeError, ValueError, BufferError):
        return None
