"""One record on its way: checked, and a snapshot of what the caller gave."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final, Literal

from stepwell.sdk._fork import ready

__all__ = ["KINDS", "Item", "Kind", "Part"]

Kind = Literal["step", "feedback", "trajectory", "exchange"]
KINDS: Final[tuple[Kind, ...]] = ("step", "feedback", "trajectory", "exchange")
Part = tuple[str, str, bytes]
"""A field's name, what its bytes are, the bytes. By a type code of `array`: such numbers, written out as a list. Without: the body of a
message, written out as a text, or in base64 under the name with `_b64`."""


@dataclass(frozen=True, slots=True)
class Item:
    """One record: JSON, and beside it what is large, in the form in which it is copied fastest; whoever sends it writes it out.

    A thousand token ids are copied in the time it takes to write out ten, and the caller waits for the copy only.
    """

    kind: Kind
    id: str
    body: bytes
    """A JSON object; without the fields in `parts`, and then not empty."""
    parts: tuple[Part, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of memory that it takes, about."""
        size = len(self.body)
        for _, _, data in self.parts:
            size += len(data)
        return size

    def whole(self) -> bytes:
        """The record as one JSON object."""
        if not self.parts:
            return self.body
        return b",".join([self.body[:-1], *(_written(*part) for part in self.parts)]) + b"}"


def _written(name: str, code: str, data: bytes) -> bytes:
    ready("pydantic_core", "base64")
    from base64 import b64encode

    from pydantic_core import to_json

    if code:
        return b'"%b":%b' % (name.encode(), to_json(array(code, data).tolist()))
    try:
        return b'"%b":%b' % (name.encode(), to_json(data.decode()))
    except UnicodeDecodeError:
        return b'"%b_b64":"%b"' % (name.encode(), b64encode(data))
