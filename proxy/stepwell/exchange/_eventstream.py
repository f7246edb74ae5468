"""The binary framing `application/vnd.amazon.eventstream`, as Bedrock streams in it.

A frame is a prelude (its length, its headers' length, the CRC-32 of these two), headers with typed values, a payload, and the
CRC-32 of everything before. Numbers are big-endian. Sizes are bounded as in AWS's own readers, so that a wrong length is a fault at
once and not a wait for gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID
from zlib import crc32

MAX_HEADERS = 128 << 10
"""Most bytes of one message's headers."""
MAX_PAYLOAD = 24 << 20
"""Most bytes of one message's payload."""

HeaderValue = bool | int | bytes | str | UUID
_Headers = Mapping[str, HeaderValue]

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_OVERHEAD = _PRELUDE.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: its headers by name, its payload."""

    headers: Mapping[str, HeaderValue]
    payload: bytes

    def text(self, name: str) -> str:
        """The value of a header that is text, or the empty string."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


@dataclass(slots=True)
class Frames:
    """The whole messages of a body in their order, and how the body ended."""

    frames: list[Frame] = field(default_factory=list)
    problem: str | None = None
    """What is damaged (None: nothing); no message after the damage is read."""
    rest: int = 0
    """Bytes of a last message whose end never came, or of what is damaged."""

    @property
    def complete(self) -> bool:
        """Whether the body ended where a message does."""
        return self.problem is None and self.rest == 0


class _Damaged(Exception):
    """The message is none, for this reason."""


def read_frames(body: bytes) -> Frames:
    """The messages of a whole (possibly cut) body, in time linear in its length. Never fails: what is wrong is in the result."""
    found = Frames()
    view = memoryview(body)
    start = 0
    known: dict[bytes, _Headers] = {}  # nearly every message of a stream has the headers of the one before
    try:
        while len(body) - start >= _PRELUDE.size:
            size, headers_size = _prelude(view, start)
            if len(body) - start < size:
                break
            found.frames.append(_message(view[start : start + size], headers_size, known))
            start += size
    except _Damaged as damage:
        found.problem = f"frame {len(found.frames)}, at byte {start}: {damage}"
    found.rest = len(body) - start
    return found


def looks_like_frames(content_type: str, body: bytes) -> bool:
    """Whether a body is framed so: by its type, or, since recorders lose that, by a first prelude that checks."""
    if len(body) >= _PRELUDE.size:
        size, headers_size, crc = _PRELUDE.unpack_from(body)
        if crc32(body[: _PRELUDE.size - _CRC.size]) == crc and size >= _OVERHEAD + headers_size:
            return True
    return "vnd.amazon.eventstream" in content_type.lower() and body.lstrip()[:1] != b"{"


def _prelude(view: memoryview, start: int) -> tuple[int, int]:
    size, headers_size, crc = _PRELUDE.unpack_from(view, start)
    if crc32(view[start : start + _PRELUDE.size - _CRC.size]) != crc:
        raise _Damaged("the prelude's checksum does not match")
    if headers_size > MAX_HEADERS:
        raise _Damaged(f"{headers_size} bytes of headers; at most {MAX_HEADERS} are read")
    payload_size = size - headers_size - _OVERHEAD
    if payload_size < 0:
        raise _Damaged(f"{size} bytes cannot hold {headers_size} bytes of headers")
    if payload_size > MAX_PAYLOAD:
        raise _Damaged(f"a payload of {payload_size} bytes; at most {MAX_PAYLOAD} are read")
    return size, headers_size


def _message(view: memoryview, headers_size: int, known: dict[bytes, _Headers]) -> Frame:
    end = len(view) - _CRC.size
    (crc,) = _CRC.unpack_from(view, end)
    if crc32(view[:end]) != crc:
        raise _Damaged("the checksum does not match")
    headers_end = _PRELUDE.size + headers_size
    raw = bytes(view[_PRELUDE.size : headers_end])
    headers = known.get(raw)
    if headers is None:
        headers = known[raw] = _headers(raw)
    return Frame(headers, bytes(view[headers_end:end]))


def _headers(data: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    at = 0
    while at < len(data):
        raw, at = _sized(data, at, 1)
        name = _utf8(raw)
        (kind,), at = _fixed(data, at, ">B")
        read = _VALUES.get(kind)
        if read is None:
            raise _Damaged(f"header {name!r} has a value of the unknown type {kind}")
        if name in headers:
            raise _Damaged(f"header {name!r} is there twice")
        headers[name], at = read(data, at)
    return headers


def _fixed(data: bytes, at: int, layout: str) -> tuple[tuple[int, ...], int]:
    end = at + struct.calcsize(layout)
    if end > len(data):
        raise _Damaged("the headers end in the middle of one")
    return struct.unpack_from(layout, data, at), end


def _sized(data: bytes, at: int, width: int) -> tuple[bytes, int]:
    """Bytes behind their own length, which is `width` bytes wide."""
    (size,), at = _fixed(data, at, ">B" if width == 1 else ">H")
    if at + size > len(data):
        raise _Damaged("the headers end in the middle of one")
    return data[at : at + size], at + size


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _Damaged("a header's text is no UTF-8") from None


def _number(layout: str) -> Callable[[bytes, int], tuple[HeaderValue, int]]:
    def read(data: bytes, at: int) -> tuple[HeaderValue, int]:
        (value,), at = _fixed(data, at, layout)
        return value, at

    return read


def _text(data: bytes, at: int) -> tuple[HeaderValue, int]:
    raw, at = _sized(data, at, 2)
    return _utf8(raw), at


def _uuid(data: bytes, at: int) -> tuple[HeaderValue, int]:
    (high, low), at = _fixed(data, at, ">QQ")
    return UUID(int=high << 64 | low), at


_VALUES: dict[int, Callable[[bytes, int], tuple[HeaderValue, int]]] = {
    0: lambda _, at: (True, at),
    1: lambda _, at: (False, at),
    2: _number(">b"),
    3: _number(">h"),
    4: _number(">i"),
    5: _number(">q"),
    6: lambda data, at: _sized(data, at, 2),
    7: _text,
    8: _number(">q"),  # a time, ms since the epoch
    9: _uuid,
}
