"""Exchanges made by hand: what a client asked, what a server answered, how the transfer ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stepwell.exchange import End, Exchange, Request, Response, parse
from stepwell.sdk.records import Step

DONE = "data: [DONE]\n\n"


def sse(*chunks: Any, done: bool = True) -> bytes:
    """Chunks as a chat stream."""
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + (DONE.encode() if done else b"")


def make_exchange(
    body: bytes | dict[str, Any] | None,
    *,
    asked: dict[str, Any] | None = None,
    status: int | None = 200,
    end: End = "complete",
    content_type: str | None = None,
    encoding: str = "",
    truncated: bool = False,
    error: str | None = None,
    **fields: Any,
) -> Exchange:
    """A chat exchange with that answer: bytes as they are (an event stream when they look like one), a dict as JSON."""
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    kind = content_type or ("text/event-stream" if raw.startswith((b"data:", b"event:")) else "application/json")
    headers = [("content-type", kind)] + ([("content-encoding", encoding)] if encoding else [])
    request = {"model": "asked", "messages": [{"role": "user", "content": "hi"}], **(asked or {})}
    return Exchange(
        id="x",
        dialect="openai.chat",
        request=Request("POST", "http://llm/v1/chat/completions", [], json.dumps(request).encode(), 1_000),
        response=Response(status, headers, raw, end, 2_000, truncated=truncated, error=error),
        **fields,
    )


@pytest.fixture
def exchange() -> Callable[..., Exchange]:
    return make_exchange


@pytest.fixture
def steps() -> Callable[..., Sequence[Step]]:
    """The steps of an answer: `steps(body, **options)`, as `exchange` takes them."""
    return lambda body, **options: parse(make_exchange(body, **options))


@pytest.fixture
def stream() -> Callable[..., bytes]:
    return sse


@pytest.fixture
def streamed(steps: Callable[..., Sequence[Step]]) -> Callable[..., Step]:
    """The one step of a stream of deltas of choice 0, ended by `finish_reason` stop and `[DONE]`."""

    def one(*deltas: dict[str, Any]) -> Step:
        chunks = [{"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        last = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        (step,) = steps(sse(*chunks, last))
        return step

    return one
