"""Which dialect a call speaks, and what happens before its dialect reads it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import brotli
import pytest
import zstandard

from stepwell import exchange as room
from stepwell.exchange import Exchange, Unparseable, dialect_for, dialects, parse
from stepwell.sdk.records import Step

Make = Callable[..., Exchange]
Steps = Callable[..., Sequence[Step]]
BODY = {"id": "r", "choices": [{"index": 0, "message": {"content": "naïve 🧵"}, "finish_reason": "stop"}]}
RAW = json.dumps(BODY).encode()


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/chat/completions", "openai.chat"),
        ("POST", "/chat/completions?api-version=2024", "openai.chat"),
        ("POST", "/openai/deployments/gpt/chat/completions?x=/y", "openai.chat"),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/models?x=/chat/completions", None),
        ("POST", "/v1/chat/completions/123", None),
        ("POST", "/v1/completions", "openai.completions"),
        ("POST", "/v1/responses", "openai.responses"),
        ("WEBSOCKET", "/v1/responses", "openai.responses"),
        ("POST", "/backend-api/codex/responses", "openai.responses"),
        ("POST", "/openai/v1/responses?api-version=preview", "openai.responses"),
        ("GET", "/v1/responses", None),
        ("GET", "/v1/responses/resp_1", None),
        ("POST", "/v1/responses/resp_1/cancel", None),
        ("POST", "/v1/responses/compact", None),
        ("POST", "/v1/responses/input_tokens", None),
        ("POST", "/v1/messages?beta=true", "anthropic.messages"),
        ("POST", "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict", "anthropic.messages"),
        ("POST", "/v1/messages/count_tokens", None),
        ("POST", "/v1/messages/batches", None),
        ("POST", "/v1beta/models/gemini-pro:generateContent", "gemini"),
        ("POST", "/v1beta/models/gemini-pro:streamGenerateContent?alt=sse", "gemini"),
        ("POST", "/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "gemini"),
        ("POST", "/v1beta/models/gemini-pro:countTokens", None),
        ("POST", "/v1beta/models/embedding-001:embedContent", None),
        ("POST", "/v1beta/models/embedding-001:batchEmbedContents", None),
        ("POST", "/api/chat", "ollama.chat"),
        ("POST", "/api/generate", "ollama.generate"),
        ("POST", "/api/embed", None),
        ("POST", "/api/show", None),
        ("POST", "/model/us.anthropic.claude%3A0/converse", "bedrock.converse"),
        ("POST", "/model/us.anthropic.claude%3A0/converse-stream", "bedrock.converse"),
        ("POST", "/model/us.anthropic.claude%3A0/invoke", "bedrock.invoke"),
        ("POST", "/model/us.anthropic.claude%3A0/invoke-with-response-stream", "bedrock.invoke"),
        ("POST", "/model/us.anthropic.claude%3A0/count-tokens", None),
        ("POST", "/v1/embeddings", None),
        ("POST", "/v1/images/generations", None),
        ("POST", "/v1/traces/ingest", None),
        ("POST", "/oauth/token", None),
        ("POST", "/mcp", None),
        ("POST", "", None),
    ],
)
def test_the_dialect_of_a_call(method: str, path: str, name: str | None) -> None:
    dialect = dialect_for(method, path)
    assert (dialect.name if dialect else None) == name


def test_all_dialects_are_named() -> None:
    assert set(dialects()) == {
        "anthropic.messages",
        "bedrock.converse",
        "bedrock.invoke",
        "engine.generate",
        "gemini",
        "ollama.chat",
        "ollama.generate",
        "openai.chat",
        "openai.completions",
        "openai.responses",
    }


def test_the_public_names_are_all_there() -> None:
    assert all(hasattr(room, name) for name in room.__all__)


def test_an_unknown_dialect_is_unparseable(exchange: Make) -> None:
    with pytest.raises(Unparseable, match=r"unknown dialect 'other\.api'"):
        parse(replace(exchange(BODY), dialect="other.api"))


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(RAW)),
        ("br", brotli.compress(RAW)),
        ("zstd", zstandard.compress(RAW)),
        ("gzip, br", brotli.compress(gzip.compress(RAW))),
        ("", gzip.compress(RAW)),  # its header lost on the way
    ],
)
def test_both_bodies_are_decoded(coding: str, packed: bytes, exchange: Make) -> None:
    plain = exchange(BODY)
    answered = exchange(packed, encoding=coding, content_type="application/json")
    assert parse(answered) == parse(plain)
    body = zstandard.compress(plain.request.body)
    asked = replace(plain.request, body=body, headers=[("content-encoding", "zstd")])
    assert parse(replace(plain, request=asked)) == parse(plain)


def test_codings_in_two_headers_are_one_list(exchange: Make) -> None:
    plain = exchange(BODY)
    headers = [("content-encoding", "gzip"), ("content-type", "application/json"), ("content-encoding", "br")]
    packed = replace(plain.response, body=brotli.compress(gzip.compress(RAW)), headers=headers)
    assert parse(replace(plain, response=packed)) == parse(plain)


def test_a_request_that_cannot_be_read_is_unparseable(exchange: Make) -> None:
    plain = exchange(BODY)
    for request, reason in [
        (replace(plain.request, truncated=True), "larger than what capture keeps"),
        (replace(plain.request, headers=[("content-encoding", "gzip")]), "request body cannot be decoded"),
        (replace(plain.request, headers=[("content-encoding", "rot13")]), "unknown content-encoding 'rot13'"),
    ]:
        with pytest.raises(Unparseable, match=reason):
            parse(replace(plain, request=request))


def test_an_answer_that_cannot_be_decoded_is_unparseable_unless_it_was_cut(steps: Steps) -> None:
    with pytest.raises(Unparseable, match="response body cannot be decoded"):
        steps(b"\x1f\x8b\x08broken", encoding="gzip")
    (step,) = steps(b"\x1f\x8b\x08broken", encoding="gzip", end="upstream_error")
    assert step.status == "truncated"


def test_a_compressed_stream_cut_anywhere_gives_what_had_come(steps: Steps, stream: Callable[..., bytes]) -> None:
    chunks: list[Any] = [{"id": "r", "choices": [{"index": 0, "delta": {"content": f"w{n} "}}]} for n in range(30)]
    whole = "".join(f"w{n} " for n in range(30))
    packed = gzip.compress(stream(*chunks))
    for cut in range(0, len(packed) - 12, 7):
        (step,) = steps(packed[:cut], encoding="gzip", content_type="text/event-stream", end="client_disconnect")
        assert step.response is not None and step.status == "client_disconnect"
        assert whole.startswith("".join(part["text"] for part in step.response["content"]))


def test_parsing_twice_gives_the_same(exchange: Make, stream: Callable[..., bytes]) -> None:
    for body in (
        BODY,
        stream({"id": "r", "choices": [{"delta": {"content": "a", "x": [1]}}, {"index": 1, "delta": {"x": [2]}}]}),
    ):
        made = exchange(body)
        first = parse(made)
        assert parse(made) == first
        assert made == exchange(body)  # and changes nothing
