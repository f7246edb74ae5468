"""Calls that go wrong: the agent sees what it would have seen without us, and what there was is recorded, once."""

from __future__ import annotations

import threading
from typing import Any

import httpx2
import openai
import pytest

from stepwell.testing import ChatCall, Delivery, Reply

from .conftest import ENGINE, REFUSED, Site, assert_same, say, texts

TEXT = "Es war einmal ein 👋 Wort, und noch eines, und ein drittes — 数据."
STREAM: dict[str, Any] = {"messages": say("hi"), "stream": True, "model": "m"}


def hang_up_at(site: Site, mark: str) -> None:
    """Read a stream up to the line that has `mark` in it, and hang up.

    The connection is closed, not only the answer: httpx2 leaves an HTTP/2 stream without telling the server.
    """
    client = site.http(site.name)
    with client.stream("POST", f"{ENGINE}/chat/completions", json=STREAM) as answer:
        for line in answer.iter_lines():
            if mark in line:
                client.close()
                return
    raise AssertionError(f"the stream ended without {mark}")


def test_the_client_hangs_up_in_the_middle_of_a_stream(over: Site) -> None:
    """Recorded once, with what the client had got; the upstream is let go."""
    never = threading.Event()
    over.script(Reply(content=TEXT, delivery=Delivery(hold=never, hold_after=4)))
    hang_up_at(over, '"content":"Es')
    (call,) = over.wait_for_calls(1)  # it ends because the proxy hangs up on it: nobody sets the event
    assert not call.delivered
    (row,) = over.rows(1)
    assert (row["status"], row["finish_reason"], row["trainable"]) == ("client_disconnect", None, False)
    assert row["untrainable_reason"] == "the client hung up before the answer ended"
    said, sampled = texts(row["response"]), call.choices[0]
    assert said
    assert sampled.text.startswith(said)
    assert row["response_id"] == call.call_id
    assert row["prompt_ids"] == call.prompt_ids
    assert row["response_ids"] == sampled.response_ids[: len(row["response_ids"])]
    assert 0 < len(row["response_ids"]) < len(sampled.response_ids)


def test_a_client_that_leaves_after_the_whole_answer_has_made_a_whole_call(over: Site) -> None:
    """Over HTTP/2 some clients reset the stream at `[DONE]`: what counts is the protocol's own end."""
    over.script(Reply(content=TEXT))
    hang_up_at(over, "data: [DONE]")
    assert_same(over.rows(1)[0], over.wait_for_calls(1)[0])


@pytest.mark.parametrize(("status", "error"), [(429, openai.RateLimitError), (500, openai.InternalServerError)])
def test_an_error_status(over: Site, status: int, error: type[openai.APIStatusError]) -> None:
    headers = {"retry-after": "7"}
    over.script(Reply(delivery=Delivery(status=status, headers=headers)))
    with pytest.raises(error) as raised:
        over.openai(over.name).chat.completions.create(model="m", messages=say("hi"))
    assert raised.value.response.headers["retry-after"] == "7"
    assert raised.value.response.content == over.calls[0].sent
    (row,) = over.rows(1)
    assert (row["status"], row["trainable"], row["response_ids"]) == ("error", False, None)
    assert f"status {status}" in row["untrainable_reason"]
    assert f'"http_status":{status}' in row["extra"]


@pytest.mark.parametrize("stream", [False, True])
def test_each_attempt_of_a_retried_call_is_a_step(over: Site, stream: bool) -> None:
    """The SDK tries again after 500 and 429; the third attempt is answered."""
    soon = {"retry-after-ms": "1"}
    failures = [Delivery(status=500, headers=soon), Delivery(status=429, headers=soon)]

    def script(call: ChatCall) -> Reply:
        return Reply(content=TEXT, delivery=failures.pop(0) if failures else None)

    over.script(script)
    answer: Any = over.openai(over.name, retries=2).chat.completions.create(
        model="m", messages=say("hi"), stream=stream
    )
    if stream:
        for _ in answer:
            pass
    *failed, whole = over.rows(3)
    assert [row["status"] for row in failed] == ["error", "error"]
    assert_same(whole, over.calls[2])
    assert len({row["call_id"] for row in (*failed, whole)}) == 1  # attempts of one call
    assert [row["parent_id"] for row in (*failed, whole)] == [None, None, None]


def test_an_upstream_that_refuses_connections(over: Site) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        over.openai(over.name, REFUSED).chat.completions.create(model="m", messages=say("hi"))
    assert raised.value.status_code == 502
    (row,) = over.rows(1)
    assert (row["status"], row["trainable"], row["response_id"]) == ("error", False, None)
    assert row["untrainable_reason"]
    assert over.calls == []


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_breaks_off_in_the_middle(over: Site, stream: bool) -> None:
    over.script(Reply(content=TEXT, delivery=Delivery(fail_after=700, chunk_tokens=1)))
    received = bytearray()
    with (
        pytest.raises(httpx2.TransportError),
        over.http(over.name).stream("POST", f"{ENGINE}/chat/completions", json=STREAM | {"stream": stream}) as answer,
    ):
        for part in answer.iter_bytes():
            received += part
    (call,) = over.wait_for_calls(1)
    assert call.sent.startswith(bytes(received))
    (row,) = over.rows(1)
    assert (row["status"], row["trainable"], row["finish_reason"]) == ("truncated", False, None)
    if stream:
        assert row["response_id"] == call.call_id
        assert call.choices[0].text.startswith(texts(row["response"]))
        ids = row["response_ids"] or []
        assert ids == call.choices[0].response_ids[: len(ids)]


MALFORMED = [
    pytest.param(False, b'{"id": "chatcmpl-1", "choices": [{"ind', "no JSON", id="half a JSON object"),
    pytest.param(False, b"<html>\xff\xfe busy</html>", "no JSON", id="no JSON, no UTF-8"),
    pytest.param(False, b'{"id": "chatcmpl-1", "choices": "none"}', "choices", id="choices are no list"),
    pytest.param(True, b"data: {'id': 1}\n\ndata: [DONE]\n\n", "no JSON", id="an event that is no JSON"),
    pytest.param(True, b"data: [1, 2]\n\ndata: [DONE]\n\n", "no JSON object", id="an event that is no object"),
    pytest.param(True, b"event: ping\r\n\r\n: nothing\n\n", "no choice", id="a stream without a choice"),
]


@pytest.mark.parametrize(("stream", "malformed", "reason"), MALFORMED)
def test_malformed_answers_reach_the_agent_and_are_quarantined(
    over: Site, stream: bool, malformed: bytes, reason: str
) -> None:
    over.script(Reply(content=TEXT, delivery=Delivery(malformed=malformed)))
    answer = over.http(over.name).post(f"{ENGINE}/chat/completions", json=STREAM | {"stream": stream})
    assert answer.status_code == 200
    assert answer.content == malformed == over.calls[0].sent
    over.rows(0)
    (found,) = over.quarantined()
    assert reason in found["reason"]
    assert found["response_body"] == malformed
    assert found["request_body"] == over.calls[0].request
    assert found["dialect"] == "openai.chat"
    reasons = over.world.warehouse.query("select reason from quarantine").to_pylist()
    assert {"reason": found["reason"]} in reasons


def test_a_request_that_is_no_json_is_passed_on_and_quarantined(over: Site) -> None:
    over.script(Reply(content=TEXT))
    body = b'{"messages": [{"role": "user", "content": "\xff'
    answer = over.http(over.name).post(f"{ENGINE}/chat/completions", content=body)
    assert answer.status_code == 400  # the server's own word
    assert over.calls[0].request == body
    over.rows(0)
    (found,) = over.quarantined()
    assert "request is no JSON" in found["reason"]
    assert found["request_body"] == body
    assert found["response_body"] == answer.content
