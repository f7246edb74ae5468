"""HTTP archives."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from stepwell.exchange import Exchange, NotAnExchange, found_in_har, har_entries, parse

ANSWER = {"id": "r", "model": "m", "choices": [{"index": 0, "message": {"content": "grüß"}, "finish_reason": "stop"}]}
START = 1_700_000_000


def entry(**response: Any) -> dict[str, Any]:
    """As Chrome writes it."""
    return {
        "startedDateTime": "2023-11-14T22:13:20.000Z",
        "time": 250.4,
        "timings": {"blocked": 1.6, "dns": -1, "ssl": 30, "connect": 40, "send": 0.4, "wait": 58, "receive": 150.4},
        "request": {
            "method": "POST",
            "url": "https://api.openai.com/v1/chat/completions",
            "httpVersion": "h2",
            "headers": [{"name": "Content-Type", "value": "application/json"}, {"name": "Cookie", "value": "c"}],
            "postData": {"mimeType": "application/json", "text": '{"model": "m", "messages": []}'},
        },
        "response": {
            "status": 200,
            "headers": [
                {"name": "content-encoding", "value": "br"},
                {"name": "content-type", "value": "application/json"},
            ],
            "content": {"size": 99, "mimeType": "application/json", "text": json.dumps(ANSWER)},
            **response,
        },
    }


def exchange(made: dict[str, Any]) -> Exchange:
    (one,) = found_in_har(made)
    return one.exchange


def test_an_archive_is_told_by_its_shape() -> None:
    others: list[Any] = [None, [], {}, {"log": []}, {"log": {"entries": {}}}]
    assert har_entries({"log": {"version": "1.2", "entries": [1]}}) == [1]
    assert [har_entries(value) for value in others] == [None] * 5


def test_an_entry() -> None:
    made = exchange(entry())
    assert (made.dialect, made.request.headers) == ("openai.chat", [("content-type", "application/json")])
    assert made.response.headers == [("content-type", "application/json")]
    (step,) = parse(made)
    assert (step.status, step.model_asked) == ("ok", "m")
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "grüß"}]}
    assert step.started_at == datetime.fromtimestamp(START, UTC)
    assert step.first_token_at == datetime.fromtimestamp(START + 0.1, UTC)
    assert step.finished_at == datetime.fromtimestamp(START + 0.25, UTC)


def test_base64_content() -> None:
    text = base64.b64encode(json.dumps(ANSWER).encode()).decode()
    (step,) = parse(exchange(entry(content={"text": text, "encoding": "base64"})))
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "grüß"}]}


def test_content_that_the_browser_let_go_of_is_missing_not_empty() -> None:
    made = exchange(entry(content={"size": 99, "mimeType": "application/json"}))
    assert made.response.truncated
    assert [step.status for step in parse(made)] == ["truncated"]
    assert not exchange(entry(content={"size": 0})).response.truncated


@pytest.mark.parametrize(
    ("error", "end", "status"),
    [
        ("net::ERR_ABORTED", "client_disconnect", "client_disconnect"),
        ("net::ERR_CONNECTION_RESET", "upstream_error", "error"),
        (None, "upstream_error", "error"),
    ],
)
def test_a_call_without_an_answer(error: str | None, end: str, status: str) -> None:
    made = exchange(entry(status=0, headers=[], content={"size": 0}, _error=error))
    assert (made.response.status, made.response.end, made.response.first_byte_ns) == (None, end, None)
    assert [step.status for step in parse(made)] == [status]


def test_an_answer_that_broke_off() -> None:
    stream = 'data: {"id": "r", "choices": [{"index": 0, "delta": {"content": "ha"}}]}\n\n'
    made = exchange(entry(content={"text": stream, "size": 70}, _error="net::ERR_ABORTED"))
    assert [step.status for step in parse(made)] == ["client_disconnect"]


def test_a_call_of_something_else() -> None:
    made = entry()
    made["request"] = {"method": "GET", "url": "https://api.openai.com/v1/models", "headers": []}
    assert exchange(made).dialect == ""


def test_a_websocket_is_one_exchange_per_turn() -> None:
    made = entry()
    made["request"] = {"method": "GET", "url": "wss://api.openai.com/v1/responses", "headers": []}
    made["response"] = {"status": 101, "headers": [], "content": {}}
    made["_webSocketMessages"] = [
        {"type": "send", "time": START + 0.5, "opcode": 1, "data": '{"type": "response.create", "input": []}'},
        {"type": "receive", "time": START + 0.6, "opcode": 2, "data": "AAAA"},
        {"type": "receive", "time": START + 0.7, "opcode": 1, "data": '{"type": "response.completed"}'},
        {"type": "send", "time": START + 0.8, "opcode": 1, "data": '{"type": "response.create", "input": []}'},
    ]
    first, second = (one.exchange for one in found_in_har(made))
    assert first.request.at_ns == round((START + 0.5) * 1e9)
    assert (first.response.body, first.response.end) == (b'{"type": "response.completed"}\n', "complete")
    assert (second.response.body, second.response.end) == (b"", "aborted")


def broken(**fields: Any) -> dict[str, Any]:
    return {**entry(), **fields}


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("text", "an entry is no JSON object"),
        (broken(request=None), "an entry's request is no JSON object"),
        (broken(request={"url": "x"}), "no method or no URL"),
        (broken(response=[1]), "an entry's response is no JSON object"),
        (broken(_webSocketMessages=[1]), "a WebSocket message is no JSON object"),
        (entry(content="text"), "an entry's content is no JSON object"),
        (entry(content={"text": "A", "encoding": "base64"}), "content is no base64"),
    ],
)
def test_what_is_no_entry_says_so(made: Any, reason: str) -> None:
    if "WebSocket" in reason:
        made["request"]["url"] = "wss://api.openai.com/v1/responses"
    with pytest.raises(NotAnExchange, match=reason):
        list(found_in_har(made))
