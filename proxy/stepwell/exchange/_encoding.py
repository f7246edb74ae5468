"""Content codings, undone on our copy: gzip (multi-member), deflate, br, zstd, stacked ones, and streams cut short.

Whatever could be decoded is given back together with what went wrong, because half an answer is worth keeping.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import brotli
import zstandard

LIMIT = 256 << 20
"""Most decoded bytes of one body: beyond it the rest is left out, so that a small bomb cannot fill the memory."""

_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded bytes, and what went wrong (None: nothing)."""

    body: bytes
    problem: str | None = None


def decode(body: bytes, content_encoding: str, limit: int = LIMIT) -> Decoded:
    """Undo the codings a `Content-Encoding` header lists, last applied first (RFC 9110 §8.4)."""
    problem = None
    for coding in reversed([name.strip().lower() for name in content_encoding.split(",") if name.strip()]):
        if coding == "identity":
            continue
        decoder = _DECODERS.get(coding)
        if decoder is None:
            return Decoded(body, f"unknown content-encoding {coding!r}")
        step = _collect(decoder, body, coding, limit)
        body, problem = step.body, problem or step.problem
    return Decoded(body, problem)


def _collect(decoder: Callable[[], Callable[[bytes], bytes]], body: bytes, coding: str, limit: int) -> Decoded:
    feed, size = decoder(), 0
    out: list[bytes] = []
    for start in range(0, len(body), _PIECE):
        try:
            piece = feed(body[start : start + _PIECE])
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            return Decoded(b"".join(out), f"not valid {coding}: {error}")
        out.append(piece)
        size += len(piece)
        if size > limit:
            return Decoded(b"".join(out)[:limit], f"decodes to more than {limit} bytes")
    return Decoded(b"".join(out))


def _gzip() -> Callable[[bytes], bytes]:
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(data: bytes) -> bytes:
        nonlocal inflate
        out = inflate.decompress(data)
        while inflate.eof and (rest := inflate.unused_data.lstrip(b"\0")):  # the next member; zero padding is allowed
            inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
            out += inflate.decompress(rest)
        return out

    return feed


def _deflate() -> Callable[[bytes], bytes]:
    """`deflate` is zlib by its RFC and raw deflate by some servers: the first bytes tell."""
    inflate = None

    def feed(data: bytes) -> bytes:
        nonlocal inflate
        if inflate is None:
            is_zlib = len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            inflate = zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)
        return inflate.decompress(data)

    return feed


def _brotli() -> Callable[[bytes], bytes]:
    feed: Callable[[bytes], bytes] = brotli.Decompressor().process
    return feed


def _zstd() -> Callable[[bytes], bytes]:
    return zstandard.ZstdDecompressor().decompressobj(read_across_frames=True).decompress


_DECODERS: dict[str, Callable[[], Callable[[bytes], bytes]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
