"""The binary framing of AWS: against botocore's reader, cut anywhere, damaged anywhere, and in bounded sizes."""

from __future__ import annotations

import struct
import zlib
from typing import Any
from uuid import UUID

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._eventstream import MAX_HEADERS, MAX_PAYLOAD, Frames, looks_like_frames, read_frames

from .bedrock.frames import frame, text_header


def header(name: str, kind: int, raw: bytes = b"") -> bytes:
    return struct.pack(">B", len(name.encode())) + name.encode() + struct.pack(">B", kind) + raw


def prelude(size: int, headers_size: int) -> bytes:
    raw = struct.pack(">II", size, headers_size)
    return raw + struct.pack(">I", zlib.crc32(raw))


ONE = frame(b"payload", text_header(":event-type", "chunk"))


def test_a_message_is_its_headers_and_its_payload() -> None:
    found = read_frames(ONE + frame(b"") + frame(b"\x00" * 3))
    assert [message.headers for message in found.frames] == [{":event-type": "chunk"}, {}, {}]
    assert [message.payload for message in found.frames] == [b"payload", b"", b"\x00" * 3]
    assert (found.complete, found.rest, found.problem) == (True, 0, None)
    assert found.frames[0].text(":event-type") == "chunk"
    assert found.frames[0].text(":message-type") == ""


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (0, b"", True),
        (1, b"", False),
        (2, b"\xff", -1),
        (3, b"\x80\x00", -(2**15)),
        (4, b"\x7f\xff\xff\xff", 2**31 - 1),
        (5, b"\xff" * 8, -1),
        (6, b"\x00\x02\x00\xff", b"\x00\xff"),
        (6, b"\x00\x00", b""),
        (7, b"\x00\x03\xe2\x82\xac", "€"),
        (8, b"\x00" * 7 + b"\x05", 5),
        (9, bytes(range(16)), UUID(bytes=bytes(range(16)))),
    ],
)
def test_every_type_of_header(kind: int, raw: bytes, value: Any) -> None:
    (message,) = read_frames(frame(b"", header("before", 0) + header("é", kind, raw) + header("z", 1))).frames
    assert message.headers == {"before": True, "é": value, "z": False}
    assert type(message.headers["é"]) is type(value)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (header("a", 10), "unknown type 10"),
        (header("a", 0) * 2, "'a' is there twice"),
        (header("a", 7, b"\x00\x05abc"), "end in the middle"),
        (header("a", 5, b"\x00"), "end in the middle"),
        (header("a", 9, b"\x00" * 15), "end in the middle"),
        (b"\x05ab", "end in the middle"),
        (b"\x01a", "end in the middle"),
        (header("a", 7, b"\x00\x01\xff"), "no UTF-8"),
    ],
)
def test_headers_that_are_none_are_damage(headers: bytes, reason: str) -> None:
    found = read_frames(ONE + frame(b"", headers) + ONE)
    assert len(found.frames) == 1 and not found.complete
    assert found.problem is not None and reason in found.problem
    assert f"frame 1, at byte {len(ONE)}" in found.problem


def test_cut_anywhere_the_whole_messages_before_the_cut_are_there() -> None:
    body = ONE * 3
    for cut in range(len(body) + 1):
        found = read_frames(body[:cut])
        assert len(found.frames) == cut // len(ONE)
        assert (found.rest, found.problem) == (cut % len(ONE), None)
        assert found.complete == (cut % len(ONE) == 0)


def test_one_wrong_byte_anywhere_is_found() -> None:
    body = ONE * 2
    for at in range(len(body)):
        found = read_frames(body[:at] + bytes([body[at] ^ 0x01]) + body[at + 1 :])
        assert len(found.frames) == at // len(ONE)
        assert found.problem is not None and "checksum" in found.problem


@pytest.mark.parametrize(
    ("size", "headers_size", "reason"),
    [
        (16 + MAX_HEADERS + 1, MAX_HEADERS + 1, "bytes of headers"),
        (16 + MAX_PAYLOAD + 1, 0, "a payload of"),
        (2**32 - 1, 0, "a payload of"),
        (15, 0, "cannot hold"),
        (0, 0, "cannot hold"),
        (20, 5, "cannot hold"),
    ],
)
def test_a_size_beyond_its_bounds_is_damage_at_once(size: int, headers_size: int, reason: str) -> None:
    found = read_frames(ONE + prelude(size, headers_size))
    assert len(found.frames) == 1
    assert found.problem is not None and reason in found.problem


def test_the_largest_sizes_are_read() -> None:
    value = header("a", 6, b"\xff\xff" + b"\x00" * 65535) + header("b", 6, b"\xff\xf0" + b"\x00" * 0xFFF0)
    padding = header("c", 6, struct.pack(">H", MAX_HEADERS - len(value) - 5) + b"\x00" * (MAX_HEADERS - len(value) - 5))
    for headers, payload in ((value + padding, b""), (b"", bytes(MAX_PAYLOAD))):
        found = read_frames(frame(payload, headers))
        assert found.complete and len(found.frames[0].payload) == len(payload)


def test_a_body_is_known_by_its_first_prelude_or_its_type() -> None:
    assert looks_like_frames("", ONE)
    assert looks_like_frames("**REDACTED**", ONE[:12])
    assert looks_like_frames("application/vnd.amazon.eventstream", b"\x00\x00")
    assert looks_like_frames("Application/VND.amazon.EventStream; x=y", b"")
    assert not looks_like_frames("application/vnd.amazon.eventstream", b'{"message": "no"}')
    assert not looks_like_frames("application/json", b'{"message": "no"}')
    assert not looks_like_frames("", b"")
    assert not looks_like_frames("", ONE[:11])


def botocore_reads(body: bytes) -> tuple[list[tuple[dict[str, Any], bytes]], bool]:
    """Its messages, and whether it stumbled."""
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    messages: list[tuple[dict[str, Any], bytes]] = []
    try:
        messages.extend((message.headers, message.payload) for message in buffer)
    except (ParserError, KeyError, UnicodeDecodeError, struct.error):
        return messages, True
    return messages, False


def as_botocore(found: Frames) -> list[tuple[dict[str, Any], bytes]]:
    """It gives the 16 bytes of a UUID."""
    return [
        ({k: v.bytes if isinstance(v, UUID) else v for k, v in message.headers.items()}, message.payload)
        for message in found.frames
    ]


names = st.text(min_size=1, max_size=8)
values = st.one_of(
    st.sampled_from([(0, b""), (1, b"")]),
    st.binary(min_size=1, max_size=1).map(lambda raw: (2, raw)),
    st.binary(min_size=2, max_size=2).map(lambda raw: (3, raw)),
    st.binary(min_size=4, max_size=4).map(lambda raw: (4, raw)),
    st.tuples(st.sampled_from([5, 8]), st.binary(min_size=8, max_size=8)),
    st.binary(max_size=20).map(lambda raw: (6, struct.pack(">H", len(raw)) + raw)),
    st.text(max_size=10).map(lambda said: (7, struct.pack(">H", len(said.encode())) + said.encode())),
    st.binary(min_size=16, max_size=16).map(lambda raw: (9, raw)),
)
headers_made = st.dictionaries(names, values, max_size=4).map(
    lambda made: b"".join(header(name, *value) for name, value in made.items())
)
messages_made = st.lists(st.builds(frame, st.binary(max_size=40), headers_made), max_size=4).map(b"".join)


@given(messages_made, st.data())
def test_botocore_reads_the_same(body: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(body)))
    for part in (body, body[:cut]):
        found = read_frames(part)
        assert (as_botocore(found), found.problem is not None) == botocore_reads(part)


@given(messages_made.filter(bool), st.data())
def test_botocore_stumbles_where_we_do(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body) - 1))
    wrong = body[:at] + data.draw(st.binary(max_size=3)) + body[at + 1 :]
    found = read_frames(wrong)
    messages, _ = botocore_reads(wrong)
    assert as_botocore(found) == messages


@given(st.binary(max_size=80))
def test_headers_of_any_bytes_never_crash(raw: bytes) -> None:
    found = read_frames(frame(b"x", raw))
    assert found.complete == (found.problem is None)
    if found.complete:
        assert as_botocore(found) == botocore_reads(frame(b"x", raw))[0]


@given(st.binary(max_size=80))
def test_any_bytes_never_crash(body: bytes) -> None:
    found = read_frames(body)
    assert len(found.frames) <= len(body) // 16
    looks_like_frames("", body)
