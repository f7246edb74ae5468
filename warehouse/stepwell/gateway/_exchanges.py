"""Calls that a client recorded itself: each becomes the two spool entries of a captured call, and ingest parses it like one."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from stepwell.errors import InvalidRecord
from stepwell.exchange import Declared, Request, Response, dialect_for, dialects, request_entry, response_entry
from stepwell.gateway._declarations import Declarations
from stepwell.gateway._memory import hashed
from stepwell.gateway._records import Checked, NewId, named, refused
from stepwell.sdk.records import checked, new_id

__all__ = ["SubmittedExchange", "exchange_of"]

_OURS = ("step.", "steps.", "feedback.", "trajectory.")
_LATER = (".response", ".lost")
"""What ids of other entries begin and end with."""

Id = Annotated[str, Field(min_length=1, max_length=240, pattern=r"^[^\x00-\x1f\x7f]+$")]
TrajectoryId = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Nanoseconds = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
Text = Annotated[str, Field(max_length=1 << 30)]
"""With a bound, so that half a surrogate pair is refused: a plain `str` takes it."""
Headers = Annotated[list[tuple[str, str]], Field(max_length=1000)]


class SubmittedExchange(BaseModel):
    """One HTTP call of a model, as its client saw it. Bodies are text, or base64 of the bytes of the wire."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    exchange_id: Id = Field(default_factory=new_id)
    """Its steps are called `<exchange_id>.<choice>`."""
    dialect: Annotated[str, Field(max_length=256)] | None = None
    """Left out, it is found by method and URL."""
    method: Annotated[str, Field(pattern=r"^[A-Z]{1,20}$")] = "POST"
    url: Annotated[str, Field(min_length=1, max_length=16_384)]
    request_headers: Headers = Field(default_factory=list)
    """`x-stepwell-prompt`, `-group`, `-split`, `-policy-version` and `-meta-<key>` say whose call it is. Credentials are not kept."""
    request_body: Text | None = None
    request_body_b64: Text | None = None
    status: Annotated[int, Field(ge=100, le=999, strict=True)] | None = None
    """None: no answer came."""
    response_headers: Headers = Field(default_factory=list)
    response_body: Text | None = None
    response_body_b64: Text | None = None
    end: Literal["complete", "client_disconnect", "upstream_error", "aborted"] = "complete"
    error: Annotated[str, Field(max_length=10_000)] | None = None
    started_ns: Nanoseconds
    """Nanoseconds since 1970, on the client's clock, here and below."""
    first_byte_ns: Nanoseconds | None = None
    finished_ns: Nanoseconds
    trajectory_id: TrajectoryId | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.exchange_id.startswith(_OURS) or self.exchange_id.endswith(_LATER):
            raise InvalidRecord(
                "exchange_id", f"begins with one of {_OURS} or ends with one of {_LATER}, which are taken"
            )
        for name in ("request_body", "response_body"):
            if getattr(self, name) is not None and getattr(self, f"{name}_b64") is not None:
                raise InvalidRecord(name, f"is given twice: leave out {name} or {name}_b64")
        if self.request_body is None and self.request_body_b64 is None:
            raise InvalidRecord("request_body", "is missing: what was the model asked? (or request_body_b64)")
        return self


def exchange_of(values: object, new_id: NewId, declarations: Declarations) -> Checked:
    """A submitted exchange as spool entries, without credentials. Never raises for bad input."""
    try:
        said = checked(SubmittedExchange, named("exchange", values, new_id))
        dialect = _dialect(said)
        start, end = declarations.between(said.started_ns or None, said.finished_ns or None)
        context = {"dialect": dialect, "trajectory_id": said.trajectory_id, "client": "sdk"}
        asked = request_entry(said.exchange_id, _request(said), start, **context)
        answered = response_entry(said.exchange_id, _response(said, end), dialect)
    except InvalidRecord as error:
        return refused("exchange", values, error)
    return Checked(said.exchange_id, key=hashed(f"exchange.{said.exchange_id}"), entries=(asked, answered))


def _dialect(said: SubmittedExchange) -> str:
    if said.dialect is not None:
        if said.dialect not in dialects():
            raise InvalidRecord("dialect", f"is none of {', '.join(dialects())}")
        return said.dialect
    try:
        found = dialect_for(said.method, urlsplit(said.url).path)
    except ValueError as error:
        raise InvalidRecord("url", f"is no URL: {error}") from None
    if found is None:
        raise InvalidRecord("url", f"{said.method} of this path is no generation of a known API; name its dialect")
    return found.name


def _request(said: SubmittedExchange) -> Request:
    body, headers = _body(said.request_body, said.request_body_b64, "request_body", said.request_headers)
    return Request(said.method, said.url, headers, body, said.started_ns)


def _response(said: SubmittedExchange, declared: Declared | None) -> Response:
    body, headers = _body(said.response_body, said.response_body_b64, "response_body", said.response_headers)
    return Response(
        status=said.status,
        headers=headers,
        body=body,
        end=said.end,
        at_ns=said.finished_ns,
        first_byte_ns=said.first_byte_ns,
        error=said.error,
        declared=declared,
    )


def _body(
    text: str | None, encoded: str | None, name: str, headers: list[tuple[str, str]]
) -> tuple[bytes, list[tuple[str, str]]]:
    """The body, and the headers that are true of it: text is never compressed, whatever the wire was."""
    if encoded is None:
        return (text or "").encode(), [(key, value) for key, value in headers if key.lower() != "content-encoding"]
    try:
        return base64.b64decode(encoded, validate=True), headers
    except (binascii.Error, ValueError) as error:
        raise InvalidRecord(f"{name}_b64", f"is no base64: {error}") from None
