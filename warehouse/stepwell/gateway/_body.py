"""A request's body: bounded while it is read, decompressed, and taken apart into records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from fastapi import Request
from pydantic_core import from_json

from stepwell.errors import InvalidRecord
from stepwell.gateway._decode import CODINGS, decoded, too_large
from stepwell.gateway._problems import Problem

__all__ = [
    "ARROW",
    "NDJSON",
    "PROTOBUF",
    "Body",
    "Form",
    "Unreadable",
    "check_count",
    "parsed",
    "read_body",
    "records_in",
]

Form = Literal["json", "ndjson", "arrow", "protobuf"]

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
PROTOBUF = "application/x-protobuf"
_FORMS: dict[str, Form] = {
    "application/json": "json",
    NDJSON: "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    ARROW: "arrow",
    PROTOBUF: "protobuf",
}


@dataclass(frozen=True)
class Body:
    """The bytes of a body as they were sent, and how to read them."""

    raw: bytes
    form: Form = "json"
    coding: str = "identity"
    limit: int = 64 << 20

    @cached_property
    def plain(self) -> bytes:
        """Decompressed; takes a while. Raises Problem: 413 when that is too large, 400 when it cannot be done."""
        return decoded(self.raw, self.coding, self.limit)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a line that is no JSON, among others that are."""

    error: InvalidRecord


async def read_body(request: Request, limit: int, *forms: Form) -> Body:
    """The body, in one of `forms` (JSON where none is named). Raises Problem: 413 beyond `limit` (also chunked), 415 for others."""
    form, coding = _form(request, forms or ("json",)), _coding(request)
    if _declared(request) > limit:
        raise too_large(limit)
    pieces: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        pieces.append(chunk)
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
    return Body(b"".join(pieces), form, coding, limit)


def records_in(body: Body, most: int) -> list[Any]:
    """The records of a JSON or NDJSON body, as plain values. Raises Problem: 400 for what is neither, 413 for more than `most`."""
    if body.form == "ndjson":
        lines = [(number, line) for number, line in enumerate(body.plain.split(b"\n"), 1) if line.strip()]
        check_count(len(lines), most)
        return [_line(number, line) for number, line in lines]
    value = parsed(body.plain)
    if not isinstance(value, dict | list):
        raise Problem(400, "the body must be an object or an array of objects")
    records = value if isinstance(value, list) else [value]
    check_count(len(records), most)
    return records


def check_count(count: int, most: int) -> None:
    """Raises Problem (413) for too many records."""
    if count > most:
        raise Problem(413, f"{count} records in one request; at most {most} are taken (gateway.max_batch)")


def parsed(body: bytes) -> Any:
    """The JSON value. Raises Problem (400) for what is not JSON.

    The parser keeps integers of any size as they are. NaN, infinities and halves of surrogate pairs come through, so that the
    check of each record can refuse them by the field's name instead of the whole request.
    """
    try:
        return from_json(body)
    except ValueError as error:
        return _parsed_leniently(body, error)


def _line(number: int, line: bytes) -> Any:
    """One bad line does not reject its neighbours."""
    try:
        return parsed(line)
    except Problem as problem:
        return Unreadable(InvalidRecord("", f"line {number}: {problem}"))


def _parsed_leniently(body: bytes, first: ValueError) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        raise Problem(400, "the body is nested too deeply") from None
    except ValueError:  # UnicodeDecodeError and JSONDecodeError are both; the first parser's words are the better ones
        raise Problem(400, f"the body is not JSON: {first}") from None


def _form(request: Request, forms: tuple[Form, ...]) -> Form:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    form = "json" if kind.endswith("+json") else _FORMS.get(kind)
    if form is None or form not in forms:
        known = ", ".join(name for name, form in _FORMS.items() if form in forms)
        raise Problem(415, f"the body must be {known}, not {kind[:100]!r}")
    return form


def _coding(request: Request) -> str:
    coding = request.headers.get("content-encoding", "identity").strip().lower() or "identity"
    coding = "gzip" if coding == "x-gzip" else coding
    if coding not in CODINGS:
        raise Problem(
            415,
            f"the content encoding {coding[:100]!r} is not supported: send the body plain, gzip or zstd",
            headers={"accept-encoding": "gzip, zstd"},
        )
    return coding


def _declared(request: Request) -> int:
    value = request.headers.get("content-length", "0")
    return int(value) if value.isascii() and value.isdigit() else 0
