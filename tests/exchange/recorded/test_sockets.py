"""Turns of a recorded WebSocket."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import Exchange, Frame, Request, found_in_socket

UPGRADE = Request("GET", "wss://api.openai.com/v1/responses?key=sk-canary", [("user-agent", "codex")], b"", 7)


def sent(kind: str, at_ns: int = 0, **fields: Any) -> Frame:
    return Frame(True, json.dumps({"type": kind, **fields}).encode(), at_ns)


def received(kind: str, at_ns: int = 0, **fields: Any) -> Frame:
    return Frame(False, json.dumps({"type": kind, **fields}, indent=1).encode(), at_ns)


def turns(*frames: Frame) -> list[Exchange]:
    return [made.exchange for made in found_in_socket(UPGRADE, frames)]


def test_a_turn_is_one_exchange() -> None:
    (one,) = turns(
        sent("response.create", 10, input=[]),
        received("response.created", 11, response={"error": None}),
        received("response.output_text.delta", 12, delta='"response.completed"'),
        received("response.completed", 13, response={"id": "r"}),
        received("rate_limits.updated", 14),
    )
    asked, answered = one.request, one.response
    assert (asked.method, asked.url) == ("WEBSOCKET", "wss://api.openai.com/v1/responses")
    assert (asked.headers, asked.at_ns) == ([("user-agent", "codex")], 10)
    assert json.loads(asked.body) == {"type": "response.create", "input": []}
    assert (answered.status, answered.headers) == (101, [("content-type", "application/x-ndjson")])
    assert [json.loads(line)["type"] for line in answered.body.splitlines()] == [
        "response.created",
        "response.output_text.delta",
        "response.completed",
    ]
    assert (answered.end, answered.first_byte_ns, answered.at_ns, answered.error) == ("complete", 11, 13, None)
    assert (one.dialect, one.request_known) == ("openai.responses", True)


@pytest.mark.parametrize("kind", ["response.incomplete", "response.failed", "response.cancelled", "error"])
def test_every_terminal_event_ends_a_turn(kind: str) -> None:
    frames = (sent("response.create", n=1), received(kind), received("late"), sent("response.create", n=2))
    first, second = turns(*frames, received(kind))
    assert [len(one.response.body.splitlines()) for one in (first, second)] == [1, 1]
    assert {one.response.end for one in (first, second)} == {"complete"}


def test_what_follows_too_early_or_never_leaves_a_turn_cut() -> None:
    first, second = turns(sent("response.create", n=1), received("response.created"), sent("response.create", n=2))
    assert (first.response.end, first.response.error) == ("aborted", "the next turn began before the answer ended")
    assert (second.response.end, second.response.body) == ("aborted", b"")
    assert second.response.error == "the recording ended before the answer did"


def test_whoever_knows_how_the_socket_ended_says_so() -> None:
    (one,) = found_in_socket(UPGRADE, [sent("response.create")], "client_disconnect", "gone")
    assert (one.exchange.response.end, one.exchange.response.error) == ("client_disconnect", "gone")


def test_other_frames_belong_to_no_turn() -> None:
    frames = (
        received("response.completed"),
        sent("session.update", note="response.create"),
        Frame(True, b'broken "response.create"'),
        Frame(True, b'["response.create"]'),
    )
    (one,) = turns(*frames)
    assert (one.dialect, one.request.method) == ("", "GET")


def test_another_socket_is_no_generation() -> None:
    realtime = Request("GET", "wss://api.openai.com/v1/realtime", [], b"", 7)
    (one,) = found_in_socket(realtime, [sent("response.create"), received("error")])
    assert not one.generation


def test_equal_turns_at_other_times_are_other_exchanges() -> None:
    one, two = turns(sent("response.create", 10), received("error"), sent("response.create", 20), received("error"))
    assert one.id != two.id
