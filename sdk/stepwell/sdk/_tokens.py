"""Token ids and logprobs, taken over as packed numbers without an object per token.

Lists and tuples, and whatever shows its memory (`array.array`, numpy arrays): 32- or 64-bit integers, floats of either width. What is
not plainly right is left to the record's own check, which looks at each number and names the one at fault.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from typing import Any

from stepwell.sdk._item import Part

__all__ = ["NAMES", "packed"]

NAMES = ("prompt_ids", "response_ids", "logprobs")

_MAX = 4_000_000
"""As `records.MAX_IDS`, which cannot be imported without pydantic."""
_BIG = int(sys.byteorder == "big")
_ZERO, _ONE = array("I", [0]).tobytes(), array("I", [1]).tobytes()
_TOP4, _TOP8 = (0, 0) if _BIG else (3, 7)
"""Where the highest byte of a number stands."""
# The highest byte of a float is its sign and its exponent but for the last bits. These are of numbers that are finite (below
# 2^127 and 2^1009) and, where positive, below 2^-12 and 2^-15: logarithms of probabilities, with what rounding adds to 0.
_LOGPROBS = {"f": bytes([*range(0x3A), *range(0x80, 0xFF)]), "d": bytes([*range(0x3F), *range(0x80, 0xFF)])}


def packed(fields: Mapping[str, Any]) -> tuple[Part, ...] | None:
    """Copies of a step's ids and logprobs, ready to be sent; None when they have to be looked at one by one, or are not there."""
    prompt, response, logprobs = (fields.get(name) for name in NAMES)
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
    if isinstance(value, (list, tuple)):
        listed = _listed("I", value)
        if listed is None:
            return None
        found = listed
    else:
        if (memory := _memory(value, "iIlLqQ")) is None:
            return None
        narrow = memory[1] if memory[0] == 4 else _narrow(memory[1])
        if narrow is None:
            return None
        found = narrow
    # What is below 2^31 has no highest bit, as ASCII has none.
    return found if found[_TOP4::4].isascii() else None


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
    """An array takes what counts as such a number. Of that only booleans are meant otherwise, and those are 0 or 1."""
    if not 0 < len(value) <= _MAX:
        return None
    try:
        found = array(code, value).tobytes()
    except (TypeError, OverflowError):
        return None
    # To ask each member for its type takes longer than all else, so that is left to lists in which these bytes are.
    suspect = code == "I" and (_ZERO in found or _ONE in found)
    return None if suspect and bool in map(type, value) else found


def _narrow(wide: bytes) -> bytes | None:
    """64-bit integers as 32-bit ones; None when one does not fit. By numpy where the process has it, which is five times faster."""
    if (numpy := sys.modules.get("numpy")) is not None:
        numbers = numpy.frombuffer(wide, "u8")
        narrow = numbers.astype("u4")
        return bytes(narrow.tobytes()) if (narrow == numbers).all() else None
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
