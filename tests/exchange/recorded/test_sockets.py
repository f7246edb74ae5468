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


def test_what_is_asked_for_early_waits_and_what_the_recording_cuts_says_so() -> None:
    first, second = turns(sent("response.create", n=1), received("response.created"), sent("response.create", n=2))
    assert [len(one.response.body.splitlines()) for one in (first, second)] == [1, 0]
    for one in (first, second):
        assert (one.response.end, one.response.error) == ("aborted", "the recording ended before the answer did")


def test_an_answer_that_begins_too_early_cuts_the_one_before_it() -> None:
    begun = (sent("response.create", n=1), received("response.created"))
    first, second = turns(*begun, sent("response.create", n=2), received("response.created"), received("error"))
    assert first.response.end == "client_disconnect"
    assert first.response.error == "the next answer began before this one had ended"
    assert (second.response.end, len(second.response.body.splitlines())) == ("complete", 2)


def test_lanes_are_told_apart() -> None:
    asked = [sent("response.create", 10 + n, stream_id=lane, input=lane) for n, lane in enumerate("ab")]
    told = [received(kind, n, stream_id=lane) for n, kind in enumerate(("response.created", "error")) for lane in "ba"]
    for one in turns(*asked, *told):
        lane = json.loads(one.request.body)["stream_id"]
        assert [json.loads(line)["stream_id"] for line in one.response.body.splitlines()] == [lane, lane]


def test_what_is_steered_is_a_turn_of_its_own() -> None:
    steer = sent("response.steer", 12, previous_response_id="r", input="left")
    frames = (sent("response.create", 10), received("response.created", response={"id": "r"}), steer)
    accepted = received("response.steer.accepted", 13, steer={"id": "steer_1", "previous_response_id": "r"})
    successor = received("response.created", 15, response={"id": "r2", "previous_response_id": "r"})
    done = received("response.completed", 16, response={"id": "r2"})
    first, second = turns(*frames, accepted, received("response.incomplete", 14), successor, done)
    assert (first.response.end, second.response.end) == ("complete", "complete")
    assert (json.loads(second.request.body)["type"], second.request.at_ns) == ("response.steer", 15)


def test_frames_of_a_steered_request_are_one_a_line() -> None:
    frames = [
        Frame(True, json.dumps({"type": f"response.{kind}", "input": kind}, indent=1).encode())
        for kind in ("steer", "create")
    ]
    (one,) = turns(*frames)
    assert [json.loads(line)["input"] for line in one.request.body.splitlines()] == ["steer", "create"]
    (alone,) = turns(frames[1])
    assert alone.request.body == frames[1].data


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
