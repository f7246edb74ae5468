"""When the first token came, told from the times of an answer's first pieces."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from stepwell.exchange import Exchange, Request, Response, exchange_from, parse, request_entry, response_entry
from stepwell.spool import Entry, Record

SECOND = 1_000_000_000
PATHS = {"openai.chat": "/v1/chat/completions", "anthropic.messages": "/v1/messages", "ollama.chat": "/api/chat"}
BODIES = dict.fromkeys(PATHS, b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}')


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chat(**delta: object) -> bytes:
    return event({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


ROLE, WORD = chat(role="assistant", content=""), chat(content="ho")
CALL = chat(tool_calls=[{"index": 0, "id": "t", "function": {"name": "f", "arguments": ""}}])
END = event({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"
PING = b": still at it\n\n"
START = event({"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {}}})
BLOCK = event({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}})
THOUGHT = event({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}})
STOP = event({"type": "message_stop"})
LINES = [
    json.dumps({"model": "m", "message": {"role": "assistant", "content": text}, "done": done}).encode() + b"\n"
    for text, done in (("", False), ("a", False), ("", True))
]


def streamed(dialect: str, pieces: Sequence[bytes], limit: int = 32, **fields: object) -> Exchange:
    """An exchange whose piece number n came in second n + 1."""
    starts = [sum(map(len, pieces[:place])) for place in range(len(pieces))]
    marks = tuple((start, (place + 1) * SECOND) for place, start in enumerate(starts))[:limit]
    request = Request("POST", f"https://x{PATHS[dialect]}", [], BODIES[dialect], SECOND)
    body = b"".join(pieces)
    response = Response(200, [], body, "complete", 99 * SECOND, first_byte_ns=SECOND, marks=marks)
    return Exchange("x", dialect, request, response)


def seconds(exchange: Exchange) -> tuple[float, float]:
    (step,) = parse(exchange)
    assert step.first_byte_at is not None and step.first_token_at is not None
    return step.first_byte_at.timestamp(), step.first_token_at.timestamp()


@pytest.mark.parametrize(
    ("dialect", "pieces", "second"),
    [
        ("openai.chat", [ROLE, WORD, END], 2),
        ("openai.chat", [ROLE + WORD, WORD, END], 1),
        ("openai.chat", [ROLE, WORD[:20], WORD[20:], END], 3),
        ("openai.chat", [ROLE, *[PING] * 12, WORD, *[WORD] * 9, END], 14),
        ("openai.chat", [ROLE, PING, CALL, END], 3),
        ("anthropic.messages", [START, BLOCK, PING, THOUGHT, STOP], 4),
        ("ollama.chat", LINES, 2),
    ],
)
def test_it_came_with_the_piece_that_says_something(dialect: str, pieces: list[bytes], second: int) -> None:
    assert seconds(streamed(dialect, pieces)) == (1.0, float(second))


def test_where_the_pieces_do_not_tell_it_is_the_first_byte() -> None:
    assert seconds(streamed("openai.chat", [ROLE + WORD + END])) == (1.0, 1.0)
    assert seconds(streamed("openai.chat", [ROLE, *[PING] * 40, WORD, END])) == (1.0, 1.0), "later than what was noted"
    plain = b'{"id": "c", "choices": [{"message": {"content": "ho"}, "finish_reason": "stop"}]}'
    assert seconds(streamed("openai.chat", [plain[:30], plain[30:]])) == (1.0, 1.0)
    packed = gzip.compress(ROLE + WORD + END)
    exchange = streamed("openai.chat", [packed[:9], packed[9:]])
    coded = Response(
        **{
            **{name: getattr(exchange.response, name) for name in exchange.response.__slots__},
            "headers": [("content-encoding", "gzip")],
        }
    )
    assert seconds(Exchange("x", "openai.chat", exchange.request, coded)) == (1.0, 1.0)


def test_the_times_pass_through_the_spool() -> None:
    exchange = streamed("openai.chat", [ROLE, WORD, END])
    asked = request_entry("x", exchange.request, dialect="openai.chat")
    back = exchange_from(_record(asked), _record(response_entry("x", exchange.response)))
    assert back.response == exchange.response
    (step,) = parse(back)
    assert step.first_token_at == datetime.fromtimestamp(2, UTC)


def _record(entry: Entry) -> Record:
    return Record(1, entry.id, entry.kind, entry.ref, 0, entry.head, entry.body)
