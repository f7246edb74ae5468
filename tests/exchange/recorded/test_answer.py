"""The API of an answer, by what the answer says."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from stepwell.exchange import Response, dialect_for, found, parse
from stepwell.exchange._recorded.answer import LEAST, least_body, least_request
from stepwell.exchange._recorded.found import UNRECOGNISED

BLOCK = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}}
ANSWERS: dict[str, list[Any]] = {
    "chat": [
        {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "hi"}}]},
        {"choices": [{"index": 0, "delta": {"content": "hi"}}]},
    ],
    "completions": [{"object": "text_completion", "choices": []}, {"choices": [{"text": "hi", "index": 0}]}],
    "responses": [
        {"id": "r", "object": "response", "output": [], "status": "completed"},
        {"type": "response.created", "response": {}},
    ],
    "messages": [
        {"type": "message", "role": "assistant", "content": []},
        {"type": "message_start", "message": {}},
        BLOCK,
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    ],
    "gemini": [
        {"candidates": []},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        [{"candidates": [{"index": 0}]}],
        {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}},
    ],
    "ollama-chat": [{"model": "m", "created_at": "now", "message": {"role": "assistant", "content": "hi"}}],
    "ollama-generate": [{"model": "m", "response": "hi", "done": True}],
    "converse": [{"output": {"message": {"role": "assistant", "content": []}}, "stopReason": "end_turn"}],
}
EACH = [(api, value) for api, values in ANSWERS.items() for value in values]
OTHERS: list[Any] = [
    {"object": "list", "data": [{"object": "embedding", "embedding": []}]},
    {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}},
    {},
    [],
    [1],
    "text",
    {"choices": {}},
    {"type": 7, "object": None, "output": "text", "message": "busy"},
]


def answer(body: bytes, *headers: tuple[str, str]) -> Response:
    return Response(200, list(headers), body, "complete", 0)


def api_of(response: Response) -> str | None:
    least = least_request(response)
    return next((api for api, value in LEAST.items() if value == least), None)


@pytest.mark.parametrize(("api", "value"), EACH)
def test_an_answer_says_what_it_is(api: str, value: Any) -> None:
    body = json.dumps(value).encode()
    assert api_of(answer(body)) == api
    assert api_of(answer(json.dumps(value, indent=1).encode())) == api
    assert api_of(answer(gzip.compress(body), ("content-encoding", "gzip"))) == api
    assert api_of(answer(body + b"\n" + body + b"\n", ("content-type", "application/x-ndjson"))) == api
    stream = b": hello\n\nevent: ping\ndata: {}\n\ndata: " + body + b"\n\n"
    assert api_of(answer(stream, ("content-type", "text/event-stream"))) == api
    assert api_of(answer(b"data: " + body + b"\r\n\r\n")) == api


@pytest.mark.parametrize("value", OTHERS)
def test_nothing_is_guessed(value: Any) -> None:
    assert api_of(answer(json.dumps(value).encode())) is None


@pytest.mark.parametrize("body", [b"", b"hello", b"\xff\xfe", b"data: nothing\n\n", b"data: [DONE]\n\n", b"{"])
def test_what_cannot_be_read_is_of_no_api(body: bytes) -> None:
    assert api_of(answer(body)) is None


def test_binary_streams_are_told_by_their_events() -> None:
    kind = ("content-type", "application/vnd.amazon.eventstream")
    assert api_of(answer(b"\0\0\0\x7f:event-type\x07\0\x0cmessageStart", kind)) == "converse-stream"
    payload = base64.b64encode(b"{}")
    assert api_of(answer(b"\0\0\0\x7f:event-type\x07\0\x05chunk" + payload)) == "invoke-stream"


def test_only_the_beginning_of_a_stream_is_looked_at() -> None:
    late = b"data: {}\n\n" * 50 + b"data: " + json.dumps(BLOCK).encode() + b"\n\n"
    assert api_of(answer(late)) is None


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_the_least_request_is_one_for_its_dialect(api: str) -> None:
    path, body = LEAST[api]
    assert dialect_for("POST", path) is not None
    assert least_body("POST", path) == body
    (step,) = parse(found(None, answer(json.dumps(ANSWERS[api][0]).encode())).exchange)
    assert (step.trainable, step.untrainable_reason) == (False, "the request was not recorded")
    assert (step.model_asked, step.policy, step.messages) == (None, None, [])


def test_an_answer_of_no_known_api_is_kept_for_later() -> None:
    exchange = found(None, answer(b'{"object": "list"}')).exchange
    assert (exchange.dialect, exchange.request.body, exchange.request_known) == (UNRECOGNISED, b"", False)
