"""What ingest makes of an exchange that the SDK sends."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from stepwell.exchange import Exchange, Request, Response, claim_of, dialect_for, parse
from stepwell.sdk.records import Step


def steps_of(sent: dict[str, Any]) -> Sequence[Step]:
    """The steps of an exchange as it was sent, with what it claims."""
    exchange = exchange_of(sent)
    return [step.model_copy(update=claim_of(exchange).fields) for step in parse(exchange)]


def exchange_of(sent: dict[str, Any]) -> Exchange:
    found = dialect_for(sent["method"], urlsplit(sent["url"]).path)
    assert found is not None and sent["dialect"] in (None, found.name)
    asked = Request("POST", sent["url"], _pairs(sent["request_headers"]), body_of(sent, "request"), sent["started_ns"])
    answered = Response(
        sent["status"],
        _pairs(sent["response_headers"]),
        body_of(sent, "response"),
        sent["end"],
        sent["finished_ns"],
        sent["first_byte_ns"],
        sent["error"],
    )
    return Exchange(sent["exchange_id"], found.name, asked, answered, sent["trajectory_id"], client="sdk")


def body_of(sent: dict[str, Any], side: str) -> bytes:
    text = sent.get(f"{side}_body")
    return base64.b64decode(sent[f"{side}_body_b64"]) if text is None else str(text).encode()


def _pairs(headers: list[list[str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers]
