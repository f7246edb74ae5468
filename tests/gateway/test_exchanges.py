"""Calls that a client recorded: what becomes of them is what becomes of a captured call."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from stepwell.exchange import Exchange, exchange_from, parse

URL = "https://api.openai.com/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ANSWERED = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "naïve"}, "finish_reason": "stop"}],
}


def exchange(**more: Any) -> dict[str, Any]:
    return {
        "exchange_id": "x1",
        "dialect": None,
        "method": "POST",
        "url": URL + "?key=secret",
        "request_headers": [["Content-Type", "application/json"], ["Authorization", "Bearer sk-secret"]],
        "request_body": json.dumps(ASKED),
        "status": 200,
        "response_headers": [["content-type", "application/json"], ["set-cookie", "secret"]],
        "response_body": json.dumps(ANSWERED),
        "end": "complete",
        "error": None,
        "started_ns": 1_760_000_000_000_000_000,
        "first_byte_ns": None,
        "finished_ns": 1_760_000_001_000_000_000,
        "trajectory_id": "t",
        **more,
    }


def kept(api: Any) -> Exchange:
    request, response = api.records()
    return exchange_from(request, response)


def test_it_is_parsed_like_a_captured_call(api: Any) -> None:
    answer = api.post("/exchanges", exchange())
    assert answer.json() == {"items": [{"id": "x1", "status": "accepted"}]}
    found = kept(api)
    assert (found.dialect, found.client, found.trajectory_id) == ("openai.chat", "sdk", "t")
    (step,) = parse(found)
    assert (step.step_id, step.status, step.response_id, step.trajectory_id) == ("x1.0", "ok", "chatcmpl-1", "t")
    assert step.response == {"role": "assistant", "content": [{"type": "text", "text": "naïve"}]}
    assert step.finished_at is not None and step.finished_at.timestamp() == 1_760_000_001


def test_no_credential_is_written(api: Any) -> None:
    api.post("/exchanges", exchange())
    for record in api.records():
        assert b"secret" not in record.head + record.body


def test_who_it_belongs_to_travels_in_headers(api: Any) -> None:
    headers = [["x-stepwell-prompt", "p"], ["x-stepwell-meta-who", "me"], ["X-Stepwell-Policy-Version", "7"]]
    api.post("/exchanges", exchange(request_headers=headers))
    assert dict(kept(api).request.headers) == {
        "x-stepwell-prompt": "p",
        "x-stepwell-meta-who": "me",
        "x-stepwell-policy-version": "7",
    }


def test_bytes_of_the_wire_and_decoded_text(api_of: Any) -> None:
    packed = base64.b64encode(gzip.compress(json.dumps(ANSWERED).encode())).decode()
    headers = [["content-type", "application/json"], ["content-encoding", "gzip"]]
    raw = exchange(response_body=None, response_body_b64=packed, response_headers=headers)
    for value in (raw, exchange(response_headers=headers)):  # text is decoded already, whatever the header says
        api = api_of()
        assert api.post("/exchanges", value).status_code == 200
        assert parse(kept(api))[0].status == "ok"


def test_an_answer_that_never_came(api: Any) -> None:
    api.post("/exchanges", exchange(status=None, response_body=None, end="upstream_error", error="refused"))
    (step,) = parse(kept(api))
    assert (step.status, step.trainable) == ("error", False) and "refused" in str(step.untrainable_reason)


def test_several_and_again(api: Any) -> None:
    batch = [
        exchange(exchange_id="a"),
        exchange(exchange_id="b", url="https://example.com/"),
        exchange(exchange_id="c"),
    ]
    items = api.post("/exchanges", batch).json()["items"]
    assert [(item["id"], item["status"]) for item in items] == [("a", "accepted"), ("b", "refused"), ("c", "accepted")]
    assert items[1]["field"] == "url"
    again = api.post("/exchanges", exchange(exchange_id="a")).json()["items"]
    assert again[0]["status"] == "duplicate" and len(api.records()) == 4


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"exchange_id": "step.x"}, "exchange_id"),
        ({"exchange_id": "x.response"}, "exchange_id"),
        ({"exchange_id": "x" * 241}, "exchange_id"),
        ({"dialect": "nobody.knows"}, "dialect"),
        ({"url": ""}, "url"),
        ({"url": "http://[::1/v1/chat/completions"}, "url"),
        ({"method": "get"}, "method"),
        ({"request_body": None}, "request_body"),
        ({"request_body_b64": ""}, "request_body"),
        ({"request_body": "\ud800"}, "request_body"),
        ({"request_body": None, "request_body_b64": "!"}, "request_body_b64"),
        ({"request_headers": [["a"]]}, "request_headers[0][1]"),
        ({"request_headers": {"a": "b"}}, "request_headers"),
        ({"status": 99}, "status"),
        ({"status": "200"}, "status"),
        ({"end": "well"}, "end"),
        ({"started_ns": 1.5}, "started_ns"),
        ({"finished_ns": 2**63}, "finished_ns"),
        ({"started_ns": -1}, "started_ns"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_what_is_wrong_is_named(api: Any, more: dict[str, Any], field: str) -> None:
    body = json.dumps(exchange(**more)).encode()
    answer = api.post("/exchanges", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["items"][0]["field"]) == (422, field)
    assert api.records() == []


def test_it_can_be_told_which_dialect(api: Any) -> None:
    answer = api.post("/exchanges", exchange(url="https://proxy.example/odd/path", dialect="openai.chat"))
    assert answer.status_code == 200 and parse(kept(api))[0].status == "ok"
