"""Content codings, undone on our copy: gzip (multi-member), deflate, br, zstd, stacked ones, and streams cut short.

Whatever could be decoded is given back together with what went wrong, because half an answer is worth keeping. A stream that merely
ends too early is no fault here: whether the answer is whole is for its dialect to say. Every decoder gives its output in small
pieces, so that no more than the limit is ever in memory, however well a bomb is packed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, cast

import brotli
import zstandard

from stepwell.exchange._clean import Headers

LIMIT = 256 << 20
"""Most decoded bytes of one body: beyond it the rest is left out, so that a small bomb cannot fill the memory."""

MAX_CODINGS = 5
"""Most codings on top of each other; nobody uses more than two."""

_PIECE = 1 << 16
_GZIP = b"\x1f\x8b\x08"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded bytes, and what went wrong (None: nothing)."""

    body: bytes
    problem: str | None = None


def decode(body: bytes, content_encoding: str, limit: int = LIMIT) -> Decoded:
    """Undo the codings a `Content-Encoding` header lists, last applied first (RFC 9110 §8.4)."""
    codings = [name.strip().lower() for name in content_encoding.split(",") if name.strip()]
    if len(codings) > MAX_CODINGS:
        return Decoded(body, f"{len(codings)} content-encodings on top of each other; at most {MAX_CODINGS} are undone")
    problem = None
    for coding in reversed(codings):
        if coding == "identity":
            continue
        decoder = _DECODERS.get(coding)
        if decoder is None:
            return Decoded(body, problem or f"unknown content-encoding {coding!r}")
        step = _collect(decoder, body, coding, limit)
        body, problem = step.body, problem or step.problem
    return Decoded(body, problem)


def decoded(body: bytes, headers: Headers, limit: int = LIMIT) -> Decoded:
    """A body without its content codings, by its headers (names in lower case)."""
    codings = ", ".join(value for name, value in headers if name == "content-encoding")
    if not codings and body.startswith(_GZIP):
        codings = "gzip"  # recorders and middle boxes lose the header; no JSON and no event stream begins like this
    return decode(body, codings, limit)


@dataclass(slots=True)
class _Source:
    """A body as its decoder reads it: in large pieces, and from byte `slow` on in single ones."""

    body: bytes
    slow: int
    last: int = 0
    """Where the latest piece begins."""
    _next: int = field(default=0, init=False)

    def read(self, _size: int = -1) -> bytes:
        """The next piece, of whatever size; nothing at the end."""
        start = self._next
        if start < len(self.body):
            self.last = start
            self._next += _PIECE if start < self.slow else 1
        return self.body[start : self._next]


def _collect(decoder: _Decoder, body: bytes, coding: str, limit: int, slow: int | None = None) -> Decoded:
    source = _Source(body, len(body) if slow is None else slow)
    out: list[bytes] = []
    room, problem = limit, None
    try:
        for piece in decoder(source):
            out.append(piece[:room])
            room -= len(piece)
            if room < 0:
                problem = f"decodes to more than {limit} bytes"
                break
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        if slow is None:  # of the piece that failed the decoder gave nothing: once more, that one byte by byte
            return _collect(decoder, body, coding, limit, slow=source.last)
        problem = f"not valid {coding}: {error}"
    return Decoded(b"".join(out), problem)


def _gzip(source: _Source) -> Iterator[bytes]:
    return _inflate(source, zlib.MAX_WBITS | 16)


def _deflate(source: _Source) -> Iterator[bytes]:
    """`deflate` is zlib by its RFC and raw deflate by some servers: the first bytes tell."""
    body = source.body
    is_zlib = len(body) >= 2 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0
    return _inflate(source, zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _inflate(source: _Source, window: int) -> Iterator[bytes]:
    """Member after member; zero padding between and after them is allowed (RFC 1952 says nothing, tar and tape leave it)."""
    inflate = zlib.decompressobj(window)
    while data := source.read():
        while True:
            if inflate.eof:
                data = data.lstrip(b"\0")
                if not data:
                    break
                inflate = zlib.decompressobj(window)
            out = inflate.decompress(data, _PIECE)
            yield out
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if not data and len(out) < _PIECE:  # a full piece: more may wait inside
                break


def _brotli(source: _Source) -> Iterator[bytes]:
    unpack = brotli.Decompressor()
    while data := source.read():
        yield unpack.process(data, output_buffer_limit=_PIECE)
        while not unpack.can_accept_more_data():
            yield unpack.process(b"", output_buffer_limit=_PIECE)
    # "Ready for more input" is not "has given everything".
    while rest := unpack.process(b"", output_buffer_limit=_PIECE):
        yield rest


def _zstd(source: _Source) -> Iterator[bytes]:
    file = cast("IO[bytes]", source)  # nothing but `read` is asked of it
    with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
        while piece := reader.read1(_PIECE):  # as soon as there is any: `read` loses what it gathered before a fault
            yield piece


_Decoder = Callable[[_Source], Iterator[bytes]]

_DECODERS: dict[str, _Decoder] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
