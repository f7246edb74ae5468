"""Capture does not hold a stream back: the agent has each part while the upstream still writes the next."""

from __future__ import annotations

import threading

import pytest

from stepwell.testing import Delivery, Reply

from .conftest import DEADLINE, ENGINE, Site, assert_same, say

ASK = {"model": "m", "messages": say("hi")}


def test_chunks_arrive_while_the_upstream_still_writes(over: Site) -> None:
    """The server goes on only when the agent has read the first chunk: were it held back, neither would ever get further."""
    go_on = threading.Event()
    over.script(Reply(content="eins zwei drei vier fünf", delivery=Delivery(hold=go_on, hold_after=1)))
    client = over.openai(over.name)
    stream = iter(client.chat.completions.create(model="m", messages=say("hi"), stream=True, timeout=DEADLINE))
    first = next(stream)
    assert not go_on.is_set()
    assert first.choices[0].delta.role == "assistant"
    assert over.calls == []
    go_on.set()
    rest = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    assert rest == "eins zwei drei vier fünf"
    assert_same(over.rows(1)[0], over.calls[0])


@pytest.mark.parametrize("stream", [False, True])
def test_bytes_of_any_answer_pass_one_by_one(over: Site, stream: bool) -> None:
    """Also of a plain answer, whose type says nothing about streaming, and inside an event."""
    go_on = threading.Event()
    over.script(Reply(content="x", delivery=Delivery(hold=go_on, hold_after=5, piece=1)))
    with over.http(over.name).stream("POST", f"{ENGINE}/chat/completions", json=ASK | {"stream": stream}) as answer:
        parts = answer.iter_raw()
        early = b""
        while len(early) < 5:
            early += next(parts)
        assert not go_on.is_set()
        go_on.set()
        whole = early + b"".join(parts)
    assert whole == over.calls[0].sent
    assert_same(over.rows(1)[0], over.calls[0])


def test_one_held_stream_does_not_hold_up_other_calls(over: Site) -> None:
    go_on = threading.Event()
    replies = [Reply(content="slow", delivery=Delivery(hold=go_on)), Reply(content="quick")]
    over.script(lambda _: replies.pop(0))
    client = over.openai(over.name)
    slow = iter(client.chat.completions.create(model="m", messages=say("a"), stream=True))
    next(slow)
    quick = client.chat.completions.create(model="m", messages=say("b"))
    assert quick.choices[0].message.content == "quick"
    assert not go_on.is_set()
    go_on.set()
    assert "".join(chunk.choices[0].delta.content or "" for chunk in slow) == "slow"
    rows = {row["response_id"]: row for row in over.rows(2)}
    for call in over.calls:
        assert_same(rows[call.call_id], call)
