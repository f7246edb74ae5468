"""Generated LLM traffic of realistic shape, for every dialect: a conversation of twenty turns, tools, 8 KB of system prompt.

`exchanges(wire)` are one plain and one streamed call (about 800 deltas); `long_stream(wire, size)` one whose answer has so many
bytes in the smallest events.
"""

from __future__ import annotations

from benchmarks.traffic._conversation import ARGUMENTS, PIECES, PLAIN, TEXTS, dumps
from benchmarks.traffic._engines import Engine, OllamaChat, OllamaGenerate
from benchmarks.traffic._openai import Chat, Completions, Responses
from benchmarks.traffic._vendors import Anthropic, Converse, Gemini, Invoke
from benchmarks.traffic._wire import Wire

from stepwell.exchange import Exchange, Request, Response

__all__ = ["ARGUMENTS", "PLAIN", "WIRES", "Wire", "exchanges", "long_stream"]

_EVENT = 100
"""Bytes of an event in a long stream; where the framing alone takes more, as few as it can be."""
WIRES: tuple[Wire, ...] = (
    Chat(),
    Chat(ids=True),
    Responses(),
    Completions(),
    OllamaChat(),
    OllamaGenerate(),
    Engine(),
    Anthropic(),
    Gemini(),
    Converse(),
    Invoke(),
)


def exchanges(wire: Wire) -> list[Exchange]:
    """A plain call and a streamed one, in this order."""
    deltas = [wire.said(place, text) for place, text in enumerate(TEXTS)]
    called = wire.called(PIECES)
    count = len(TEXTS) + (len(PIECES) if called else 0)
    streamed = b"".join([wire.opening(), *deltas, called, wire.closing(count)])
    return [_exchange(wire, wire.plain(), "application/json"), _exchange(wire, streamed, wire.streamed_type)]


def long_stream(wire: Wire, size: int) -> Exchange:
    """A streamed call whose answer is at least `size` bytes of small events."""
    event = wire.lean("x" * max(_EVENT - len(wire.lean("")), 1))
    count = -(-size // len(event))
    return _exchange(wire, wire.opening() + event * count + wire.closing(count), wire.streamed_type)


def _exchange(wire: Wire, body: bytes, content_type: str) -> Exchange:
    stream = content_type == wire.streamed_type
    headers = [("content-type", "application/json"), ("user-agent", "bench/1.0")]
    url = f"https://llm.example{wire.path}"
    request = Request("POST", url, headers, dumps(wire.request(stream)), 1_760_000_000_000_000_000)
    answered = [("content-type", content_type), ("x-request-id", "req_0123456789")]
    response = Response(200, answered, body, "complete", 1_760_000_004_000_000_000, 1_760_000_001_000_000_000)
    return Exchange("0123456789abcdef0123456789abcdef", wire.name, request, response, "a-trajectory")
