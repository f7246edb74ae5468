"""Writes the binary framing `application/vnd.amazon.eventstream` in which Bedrock streams.

A frame: its length, its headers' length, the CRC-32 of these two; headers, here all of them texts; the payload; the CRC-32 of all
that. Numbers are big-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from zlib import crc32

MEDIA_TYPE = "application/vnd.amazon.eventstream"
_TEXT = 7
_OVERHEAD = 16


def frame_of(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One frame."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", _OVERHEAD + len(head) + len(payload), len(head))
    message = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return message + struct.pack(">I", crc32(message))


def event_of(kind: str, payload: bytes) -> bytes:
    """The frame of an event, as Bedrock labels it."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame_of(headers, payload)


def _header(name: str, value: str) -> bytes:
    text = value.encode()
    return struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT, len(text)) + text
