"""The files of `stepwell import`: found in folders, told apart by what they begin with, read one exchange at a time.

Only a document that is one JSON value (an archive, a list) is ever in memory as a whole; lines and flow dumps are streamed.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from stepwell.exchange import Found, NotAnExchange, found_in_har, found_in_json, har_entries

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_FLOW = re.compile(rb"\d{1,12}:")
"""A flow dump is a row of netstrings: a length, a colon, that many bytes."""
_NONE_OF_THEM = "is neither a HAR file, nor a mitmproxy flow dump, nor JSON exchanges"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What of a file could not be read."""

    path: Path
    reason: str


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """The files at these paths: folders are walked in the order of names, hidden files in them passed over."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder, name) for name in sorted(names) if not name.startswith("."))


def read_file(path: Path) -> Iterator[Found | Trouble]:
    """The exchanges of a file, in its order; at its end, what could not be read of it."""
    good, bad, first = 0, 0, ""
    try:
        with path.open("rb") as raw:
            for value in _exchanges(_unpacked(raw)):
                if isinstance(value, Found):
                    good += 1
                    yield value
                else:
                    bad += 1
                    first = first or f"{value.place}: {value.reason}"
    except (OSError, EOFError, zlib.error, ValueError) as error:
        yield Trouble(path, f"{f'cannot be read beyond {good} exchanges: ' if good else ''}{error}")
    if bad:
        yield Trouble(path, f"{bad} of it no exchanges; {first}" if good else f"{_NONE_OF_THEM}; {first}")


@dataclass(frozen=True, slots=True)
class _Bad:
    place: str
    reason: str


def _unpacked(file: io.BufferedReader) -> io.BufferedReader:
    if file.peek(2).startswith(_GZIP):
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file


def _exchanges(file: io.BufferedReader) -> Iterator[Found | _Bad]:
    head = file.peek(64).removeprefix(_BOM).lstrip()
    if _FLOW.match(head):
        from stepwell.cli._import_flows import found_in_flows

        return found_in_flows(file)
    if not head.startswith((b"{", b"[")):
        raise NotAnExchange(_NONE_OF_THEM)
    return _json(file)


def _json(file: io.BufferedReader) -> Iterator[Found | _Bad]:
    """JSON lines when the first line is a value by itself and more follows; else one document."""
    line = b""
    while not line.strip():
        line = file.readline().removeprefix(_BOM)
    try:
        first = _loads(line)
    except ValueError:
        yield from _document(line + file.read())
        return
    yield from _values(first, "line 1")
    for number, text in enumerate(file, 2):
        if text.strip():
            try:
                yield from _values(_loads(text), f"line {number}")
            except ValueError as error:
                yield _Bad(f"line {number}", f"no JSON: {error}")


def _document(text: bytes) -> Iterator[Found | _Bad]:
    try:
        value = _loads(text)
    except ValueError as error:
        raise NotAnExchange(f"{_NONE_OF_THEM}: {error}") from None
    del text
    return _values(value, "it")


def _values(value: Any, place: str) -> Iterator[Found | _Bad]:
    """The exchanges of a JSON value: an archive, a list, one."""
    entries = har_entries(value)
    if entries is not None:
        for number, entry in enumerate(entries, 1):
            try:
                yield from found_in_har(entry)
            except NotAnExchange as error:
                yield _Bad(f"entry {number}", str(error))
        return
    several = isinstance(value, list)
    for number, item in enumerate(value if several else [value], 1):
        try:
            yield found_in_json(item)
        except NotAnExchange as error:
            yield _Bad(f"item {number}" if several else place, str(error))


def _loads(text: bytes) -> Any:
    """JSON, also with half a surrogate pair in it, which browsers write where a page had one. Raises ValueError."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as strict:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise strict from None
