"""Messages of an AWS event stream, made by hand: what a server would send."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from stepwell.exchange import End, Exchange, Request, Response, parse
from stepwell.sdk.records import Step


def frame(payload: bytes, headers: bytes = b"") -> bytes:
    """One message around headers that are encoded already."""
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def text_header(name: str, value: str) -> bytes:
    raw, said = name.encode(), value.encode()
    return struct.pack(">B", len(raw)) + raw + struct.pack(">BH", 7, len(said)) + said


def event(kind: str, payload: Any, message_type: str = "event") -> bytes:
    """An event, or an exception, with a JSON payload."""
    named = ":exception-type" if message_type == "exception" else ":event-type"
    headers = {named: kind, ":content-type": "application/json", ":message-type": message_type}
    raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return frame(raw, b"".join(text_header(name, value) for name, value in headers.items()))


def converse_stream(*events: Mapping[str, Any]) -> bytes:
    """`{kind: payload}` each."""
    return b"".join(event(kind, payload) for said in events for kind, payload in said.items())


def chunk(inner: Any) -> bytes:
    """An event of the model's own protocol, as `invoke-with-response-stream` wraps it."""
    raw = inner if isinstance(inner, bytes) else json.dumps(inner).encode()
    return event("chunk", {"bytes": base64.b64encode(raw).decode(), "p": "abc"})


def bedrock(
    body: bytes | dict[str, Any] | None,
    *,
    asked: dict[str, Any] | bytes | None = None,
    operation: str = "converse",
    model: str = "some.model-v1%3A0",
    status: int | None = 200,
    end: End = "complete",
    truncated: bool = False,
    headers: tuple[tuple[str, str], ...] = (("x-amzn-requestid", "call-1"),),
) -> Exchange:
    """An exchange with Bedrock: bytes as they are (frames, or anything), a dict as JSON."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    question = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]} if asked is None else asked
    request = question if isinstance(question, bytes) else json.dumps(question).encode()
    kind = "application/json" if raw.startswith(b"{") else "application/vnd.amazon.eventstream"
    return Exchange(
        id="x",
        dialect="bedrock.converse" if operation.startswith("converse") else "bedrock.invoke",
        request=Request("POST", f"https://bedrock/model/{model}/{operation}", [], request, 1_000),
        response=Response(status, [("content-type", kind), *headers], raw, end, 2_000, truncated=truncated),
    )


def the_step(body: bytes | dict[str, Any] | None, **options: Any) -> Step:
    """The only step of such an exchange."""
    (step,) = parse(bedrock(body, **options))
    return step


def said_in(step: Step) -> list[dict[str, Any]]:
    """The parts of a step's answer."""
    assert step.response is not None
    parts: list[dict[str, Any]] = step.response["content"]
    return parts
