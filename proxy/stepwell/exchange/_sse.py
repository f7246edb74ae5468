"""Server-sent events, by the rules of the WHATWG event-stream format, over bytes.

Lines end in LF, CRLF or CR; a field's value loses one leading space; several `data` lines are joined by LF; lines that begin with a
colon are comments. Text is decoded by whoever reads an event's data, so no character is ever split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event. `complete` is False for a last one whose closing blank line never came."""

    data: bytes
    type: bytes = b""
    complete: bool = True


def parse_events(body: bytes) -> Iterator[Event]:
    """The events of a whole (possibly cut) stream, those without data left out, in time linear in its length."""
    kind = b""
    data: list[bytes] = []
    for line in body.removeprefix(_BOM).splitlines():  # on bytes: exactly LF, CRLF and CR
        if line.startswith(b"data: "):  # as nearly all begin
            data.append(line[6:])
            continue
        if not line:
            if data:
                yield Event(b"\n".join(data), kind)
            kind, data = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            kind = value
    if data:
        yield Event(b"\n".join(data), kind, complete=False)


def looks_like_events(content_type: str, body: bytes) -> bool:
    """Whether a body is an event stream: by its type, or, since some servers mislabel theirs, by its first line."""
    if content_type.lower().startswith("text/event-stream"):
        return True
    return body.removeprefix(_BOM).lstrip(b"\r\n")[:16].startswith((b"data:", b"event:", b":", b"id:", b"retry:"))
