"""What a client steers with, until it is taken up."""

from __future__ import annotations

import json

from stepwell.exchange._steering import MAX_STEER_BYTES, MAX_STEERS, Steers, continued


def frame(text: str, target: str = "r") -> bytes:
    return json.dumps({"type": "response.steer", "previous_response_id": target, "input": text}).encode()


def accepted(id_: str) -> bytes:
    return json.dumps({"steer": {"id": id_, "previous_response_id": "r"}}).encode()


def texts(frames: list[bytes]) -> list[str | None]:
    return [json.loads(one).get("input") for one in frames]


def test_the_newest_are_kept_and_answers_to_the_forgotten_are_nobody_elses() -> None:
    steers = Steers()
    for number in range(MAX_STEERS + 2):
        steers.add(frame(str(number)))
    steers.accepted(accepted("s0"))
    steers.accepted(accepted("s1"))
    assert not steers.waits(b"r")
    steers.accepted(accepted("s2"))
    assert texts(steers.for_successor(b"r", alone=False)) == ["2"]
    assert texts(steers.with_request(b"r", alone=False)) == [str(number) for number in range(3, MAX_STEERS + 2)]


def test_of_a_large_one_is_kept_what_it_steers() -> None:
    steers = Steers()
    steers.add(frame("x" * MAX_STEER_BYTES))
    (kept,) = steers.for_successor(b"r", alone=False)
    assert json.loads(kept) == {"type": "response.steer", "previous_response_id": "r"}


def test_text_is_not_taken_for_an_id() -> None:
    text = json.dumps({"previous_response_id": "text"})
    assert (
        continued(json.dumps({"type": "response.steer", "input": text, "previous_response_id": "r"}).encode()) == b"r"
    )
    assert continued(json.dumps({"type": "response.steer", "input": text}).encode()) == b""


def test_an_accepted_one_fails_by_its_id_wherever_that_stands() -> None:
    for order in (("id", "previous_response_id", "input"), ("input", "previous_response_id", "id")):
        steers = Steers()
        for number in range(2):
            steers.add(frame(str(number)))
            steers.accepted(accepted(f"s{number}"))
        said = {"id": "s1", "previous_response_id": "r", "input": [{"role": "user", "content": "1"}]}
        steers.failed(json.dumps({"steer": {name: said[name] for name in order}}).encode())
        assert texts(steers.for_successor(b"r", alone=False)) == ["0"]


def test_a_request_that_continues_nothing_takes_all_only_where_nothing_else_is_meant() -> None:
    steers = Steers()
    steers.add(frame("a"))
    assert steers.with_request(b"", alone=False) == []
    assert steers.with_request(b"other", alone=True) == []
    steers.add(frame("b"))
    steers.accepted(accepted("s"))
    assert texts(steers.with_request(b"", alone=True)) == ["b"]
    assert texts(steers.with_request(b"r", alone=True)) == ["a"]


def test_a_successor_that_names_another_response_takes_what_is_ready_only_when_it_is_alone() -> None:
    steers = Steers()
    steers.add(frame("a", "r1"))
    assert steers.for_successor(b"r2", alone=False) == []
    assert texts(steers.for_successor(b"r2", alone=True)) == ["a"]
