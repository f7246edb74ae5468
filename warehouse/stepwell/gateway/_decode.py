"""Compressed bodies, undone with a bound on what comes out: a kilobyte may stand for a gigabyte."""

from __future__ import annotations

import zlib

import zstandard

from stepwell.gateway._problems import Problem

__all__ = ["CODINGS", "decoded", "too_large"]

CODINGS = frozenset({"identity", "gzip", "zstd"})

_PIECE = 2048
"""Bytes that are decompressed before the bound is looked at: four of them may stand for 128 KiB, no more."""
_MAX_WINDOW = 128 << 20
"""Bytes of memory that a zstd frame may ask for."""


def decoded(body: bytes, coding: str, limit: int) -> bytes:
    """The body without its content coding. Raises Problem: 413 beyond `limit` bytes, 400 where it is no such body."""
    try:
        match coding:
            case "gzip":
                return _gunzipped(body, limit)
            case "zstd":
                return _unzstd(body, limit)
            case _:
                return body
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise Problem(400, f"the body is not whole {coding}: {error}") from None


def too_large(limit: int) -> Problem:
    """The refusal of a body. What is left of it is not read: the connection cannot be used again."""
    return Problem(
        413, f"the body is larger than {limit} bytes (gateway.max_body_bytes)", headers={"connection": "close"}
    )


def _gunzipped(body: bytes, limit: int) -> bytes:
    plain = bytearray()
    while body:  # a gzip file is one member or several
        member = zlib.decompressobj(wbits=31)
        plain += member.decompress(body, limit + 1 - len(plain))
        if len(plain) > limit:
            raise too_large(limit)
        if not member.eof:
            raise EOFError("it ends too early")
        body = member.unused_data
    return bytes(plain)


def _unzstd(body: bytes, limit: int) -> bytes:
    plain, at = bytearray(), 0
    while at < len(body):  # one frame or several
        frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
        while not frame.eof:
            if at >= len(body):
                raise EOFError("it ends too early")
            plain += frame.decompress(body[at : at + _PIECE])
            at += _PIECE
            if len(plain) > limit:
                raise too_large(limit)
        at = min(at, len(body)) - len(frame.unused_data)
    return bytes(plain)
