"""Content codings: every one, several on top of each other, cut short, broken, and packed to burst."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._encoding import MAX_CODINGS, Decoded, decode


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def multi_member(data: bytes) -> bytes:
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(b"") + gzip.compress(data[half:]) + b"\0" * 64


def zstd_frames(data: bytes) -> bytes:
    half = len(data) // 2
    return zstandard.compress(data[:half]) + zstandard.compress(data[half:])


def brotli_fast(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data, quality=3)
    return packed


Pack = Callable[[bytes], bytes]
PACKERS: dict[str, tuple[str, Pack]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "gzip, several members, padded": ("gzip", multi_member),
    "deflate, zlib": ("deflate", zlib.compress),
    "deflate, raw": ("deflate", raw_deflate),
    "br": ("br", brotli_fast),
    "zstd": ("zstd", zstandard.compress),
    "zstd, several frames": ("zstd", zstd_frames),
    "identity": ("identity", lambda data: data),
    "none": ("", lambda data: data),
}
packers = pytest.mark.parametrize("name", PACKERS)
SIZES = [0, 1, 1000, (1 << 16) - 1, 1 << 16, (1 << 16) + 1, 300_000]


def noise(size: int) -> bytes:
    """Bytes that do not pack, always the same."""
    return b"".join(zlib.crc32(number.to_bytes(4, "big")).to_bytes(4, "big") for number in range(size // 4 + 1))[:size]


@packers
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("data", [lambda size: b"a" * size, noise], ids=["packs well", "does not pack"])
def test_every_coding_is_undone(name: str, size: int, data: Callable[[int], bytes]) -> None:
    coding, pack = PACKERS[name]
    assert decode(pack(data(size)), coding) == Decoded(data(size))


@packers
def test_what_packs_well_and_badly_by_turns_is_undone(name: str) -> None:
    """A piece of the input gives more than a piece of the output, and more input follows."""
    coding, pack = PACKERS[name]
    data = (noise(100_000) + bytes(1_000_000)) * 3
    assert decode(pack(data), coding) == Decoded(data)


@given(st.binary(max_size=300), st.lists(st.sampled_from(list(PACKERS)), max_size=MAX_CODINGS))
def test_stacked_codings_are_undone_last_first(data: bytes, names: list[str]) -> None:
    body = data
    for name in names:
        body = PACKERS[name][1](body)
    assert decode(body, " , ".join(PACKERS[name][0] for name in names)) == Decoded(data)


@packers
@given(data=st.binary(max_size=2000), cut=st.integers(0, 3000))
def test_a_cut_stream_gives_a_prefix(name: str, data: bytes, cut: int) -> None:
    """Without a complaint: a server that never ends its gzip stream has still said everything."""
    coding, pack = PACKERS[name]
    decoded = decode(pack(data)[:cut], coding)
    assert data.startswith(decoded.body)
    assert decoded.problem is None


def test_a_flushed_stream_that_was_cut_gives_all_that_was_flushed() -> None:
    packer = zlib.compressobj(wbits=31)
    sent = b"".join(packer.compress(b"event %d\n" % number) + packer.flush(zlib.Z_SYNC_FLUSH) for number in range(50))
    assert decode(sent, "gzip").body == b"".join(b"event %d\n" % number for number in range(50))


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_packed_so_is_said_to_be_wrong(coding: str) -> None:
    assert decode(b'{"plain": "json"}', coding).problem is not None


@packers
@given(junk=st.binary(max_size=300))
def test_no_bytes_make_it_fail(name: str, junk: bytes) -> None:
    decode(junk, PACKERS[name][0])


def test_a_checksum_that_does_not_fit_is_a_problem() -> None:
    packed = gzip.compress(noise(200_000))
    decoded = decode(packed[:-8] + b"wrong!!!", "gzip")
    assert decoded.problem is not None and noise(200_000).startswith(decoded.body) and decoded.body


EVENTS = [b"event %d %b\n" % (number, noise(number % 60).hex().encode()) for number in range(5_000)]


def deflated(window: int) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return b"".join(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS)


def brotlied() -> bytes:
    packer = brotli.Compressor(quality=1)
    return b"".join(packer.process(event) + packer.flush() for event in EVENTS)


def zstandarded() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return b"".join(packer.compress(event) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for event in EVENTS)


@pytest.mark.parametrize(
    ("coding", "pack", "unpack"),
    [
        ("gzip", lambda: deflated(31), lambda cut: zlib.decompressobj(31).decompress(cut)),
        ("deflate", lambda: deflated(-15), lambda cut: zlib.decompressobj(-15).decompress(cut)),
        ("br", brotlied, lambda cut: brotli.Decompressor().process(cut)),
        ("zstd", zstandarded, lambda cut: zstandard.ZstdDecompressor().decompressobj().decompress(cut)),
    ],
    ids=["gzip", "deflate", "br", "zstd"],
)
def test_damage_costs_nothing_of_what_came_before_it(
    coding: str, pack: Callable[[], bytes], unpack: Callable[[bytes], bytes]
) -> None:
    """A stream, flushed after each event. A decoder gives nothing of a piece that it stumbles in: what its library reads of the bytes
    before the damage is there all the same."""
    sent = pack()
    for at in (len(sent) // 3, len(sent) * 2 // 3):
        before = unpack(sent[:at])
        assert before and b"".join(EVENTS).startswith(before)
        for body in (sent[:at], sent[:at] + b"\xff" * 99 + sent[at + 99 :]):
            assert decode(body, coding).body.startswith(before)


def test_a_damaged_end_costs_no_byte() -> None:
    """Nothing but the checksum is wrong."""
    packed = gzip.compress(noise(200_000))
    assert decode(packed[:-8] + b"wrong!!!", "gzip").body == noise(200_000)


def test_what_follows_a_gzip_member_costs_only_itself() -> None:
    decoded = decode(gzip.compress(b"hello") + b"trailing", "gzip")
    assert decoded.body == b"hello" and decoded.problem is not None


def test_unknown_and_too_many_codings_are_named() -> None:
    assert decode(b"x", "gzip, sdch") == Decoded(b"x", "unknown content-encoding 'sdch'")
    assert "6" in (decode(b"x", ",".join(["gzip"] * 6)).problem or "")


def bomb(pack: Pack, end: Callable[[], bytes], megabytes: int) -> bytes:
    zeros = bytes(1 << 20)
    return b"".join([*(pack(zeros) for _ in range(megabytes)), end()])


def gzip_bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return bomb(packer.compress, packer.flush, 256)


def brotli_bomb() -> bytes:
    packer = brotli.Compressor(quality=4)
    return bomb(packer.process, packer.finish, 256)


def zstd_bomb() -> bytes:
    packer = zstandard.ZstdCompressor().compressobj()
    return bomb(packer.compress, packer.flush, 256)


@pytest.mark.parametrize(
    ("coding", "make"),
    [("gzip", gzip_bomb), ("br", brotli_bomb), ("zstd", zstd_bomb)],
)
def test_a_bomb_fills_no_memory(coding: str, make: Callable[[], bytes]) -> None:
    """256 MB in a body of which the first 64 KiB alone give far more than the limit."""
    packed = make()
    limit = 1 << 20
    tracemalloc.start()
    try:
        decoded = decode(packed, coding, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded == Decoded(bytes(limit), f"decodes to more than {limit} bytes")
    assert peak < 8 * limit


def test_exactly_the_limit_is_taken() -> None:
    assert decode(gzip.compress(b"x" * 100), "gzip", 100) == Decoded(b"x" * 100)
    assert decode(gzip.compress(b"x" * 101), "gzip", 100).body == b"x" * 100
