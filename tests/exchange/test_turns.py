"""What a turn is on a socket, frame by frame."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Began, Ended, Said, Turns
from stepwell.exchange._turns import MAX_TURNS, kind_of

Say = tuple[str, dict[str, Any]]
"""`>` or `<` and a type; the frame's other fields."""


def ask(**fields: Any) -> Say:
    return ">response.create", fields


def steer(target: str, text: str) -> Say:
    return ">response.steer", {"previous_response_id": target, "input": text}


def begin(id_: str, previous: str | None = None, **fields: Any) -> Say:
    return "<response.created", {"response": {"id": id_, "tools": [], "previous_response_id": previous}, **fields}


def about(verb: str, target: str, id_: str | None = None, **fields: Any) -> Say:
    return f"<response.steer.{verb}", {
        "steer": {**({"id": id_} if id_ else {}), "previous_response_id": target},
        **fields,
    }


def end(name: str = "completed", **fields: Any) -> Say:
    return f"<response.{name}", fields


class Socket:
    """What a series of frames came to: requests, types of the answers' frames, ends, by turn."""

    def __init__(self, says: Iterable[Say]) -> None:
        self.turns = Turns()
        self.asked: dict[int, list[dict[str, Any]]] = {}
        self.told: dict[int, list[str]] = {}
        self.ends: dict[int, tuple[str, str | None]] = {}
        for kind, fields in says:
            frame = json.dumps({"type": kind[1:], **fields}, ensure_ascii=False).encode()
            for move in self.turns.asked(frame) if kind[0] == ">" else self.turns.answered(frame):
                self.take(move)

    def take(self, move: Began | Said | Ended) -> None:
        assert (move.turn in self.asked) is not isinstance(move, Began) and move.turn not in self.ends
        match move:
            case Began(turn, body):
                self.asked[turn], self.told[turn] = [json.loads(line) for line in body.splitlines()], []
            case Said(turn, line):
                self.told[turn].append(json.loads(line)["type"].removeprefix("response."))
            case Ended(turn, how, why):
                self.ends[turn] = how, why

    def inputs(self) -> list[list[str]]:
        return [[frame["input"] for frame in frames] for frames in self.asked.values()]


def test_a_steered_response_is_followed_by_a_turn_that_nobody_created() -> None:
    told = (steer("r1", "left"), about("accepted", "r1", "s1"), steer("r1", "fast"), about("accepted", "r1", "s2"))
    socket = Socket([ask(input="go"), begin("r1"), *told, end("incomplete"), begin("r2", "r1"), end()])
    assert socket.inputs() == [["go"], ["left", "fast"]]
    assert socket.told[1] == ["created", "steer.accepted", "steer.accepted", "incomplete"]
    assert socket.told[2] == ["created", "completed"]
    assert set(socket.ends.values()) == {("complete", None)}


def test_a_server_that_acknowledges_nothing_took_up_all() -> None:
    socket = Socket([ask(input="go"), begin("r1"), steer("r1", "a"), steer("r1", "b"), end("incomplete"), begin("r2")])
    assert socket.inputs() == [["go"], ["a", "b"]]


def test_what_crossed_the_successor_on_its_way_is_not_in_it() -> None:
    asked = [ask(input="go"), begin("r1"), steer("r1", "in"), about("accepted", "r1", "s1"), steer("r1", "late")]
    socket = Socket([*asked, end("incomplete"), begin("r2", "r1"), about("failed", "r1"), end(), begin("r3", "r2")])
    assert socket.inputs() == [["go"], ["in"]]
    assert socket.told[2] == ["created", "steer.failed", "completed"]


@pytest.mark.parametrize(
    ("failed", "left"),
    [
        (about("failed", "r1", "s2"), ["a", "c"]),  # the one of that id
        (about("failed", "r1"), ["a", "b"]),  # the oldest that is not answered
        (about("failed", "r1", "s9"), ["a", "b"]),  # nobody's: what is not accepted is in no successor either
    ],
)
def test_only_the_steer_that_failed_is_dropped(failed: Say, left: list[str]) -> None:
    accepted = [about("accepted", "r1", "s1"), about("accepted", "r1", "s2")]
    asked = [ask(input="go"), begin("r1"), *(steer("r1", text) for text in "abc"), *accepted, failed]
    late = [about("accepted", "r1", "s3")] if left[-1] == "c" else []
    assert Socket([*asked, *late, end("incomplete"), begin("r2", "r1")]).inputs()[1] == left


def test_the_ids_of_what_is_given_back_are_not_taken_for_its_own() -> None:
    """A failure returns the input, whose items may have ids."""
    back = (
        "<response.steer.failed",
        {"steer": {"input": [{"id": "s1", "role": "user"}], "previous_response_id": "r1"}},
    )
    says = [ask(input="go"), begin("r1"), steer("r1", "a"), about("accepted", "r1", "steer_1"), steer("r1", "b"), back]
    assert Socket([*says, end("incomplete"), begin("r2", "r1")]).inputs()[1] == ["a"]


def test_what_waits_goes_before_the_request_that_continues_the_same() -> None:
    says = [ask(input="go"), begin("r1"), steer("r1", "left"), about("accepted", "r1", "s1"), end()]
    other = [ask(input="another", previous_response_id="r0"), begin("x", "r0"), end()]
    socket = Socket([*says, *other, ask(input="result", previous_response_id="r1"), begin("r2", "r1"), end()])
    assert socket.inputs() == [["go"], ["another"], ["left", "result"]]


def test_the_answer_to_what_went_with_a_request_is_nobody_elses() -> None:
    says = [ask(input="go"), begin("r1"), steer("r1", "a"), end(), ask(input="b", previous_response_id="r1")]
    late = [steer("r1", "c"), about("accepted", "r1", "s1"), about("failed", "r1"), begin("r2", "r1"), end()]
    socket = Socket([*says, *late, begin("r3", "r1")])
    assert socket.inputs() == [["go"], ["a", "b"]]


def test_a_successor_comes_before_the_request_that_waits() -> None:
    says = [ask(input="go"), begin("r1"), steer("r1", "left"), about("accepted", "r1", "s1"), ask(input="new")]
    socket = Socket([*says, end("incomplete"), begin("r2", "r1"), end(), begin("q1"), end("failed")])
    assert socket.inputs() == [["go"], ["new"], ["left"]]
    assert [told[-1] for told in socket.told.values()] == ["incomplete", "failed", "completed"]


def test_each_lane_has_its_own_successor() -> None:
    lanes = [(ask(input=lane, stream_id=lane), begin(f"r{lane}", stream_id=lane)) for lane in "ab"]
    says = [say for pair in lanes for say in pair]
    says += [steer("rb", "B"), about("accepted", "rb", "s1", stream_id="b"), steer("ra", "A")]
    says += [about("accepted", "ra", "s2", stream_id="a"), end("incomplete", stream_id="a")]
    says += [begin("ra2", "ra", stream_id="a"), end("incomplete", stream_id="b"), begin("rb2", "rb", stream_id="b")]
    socket = Socket([*says, end(stream_id="a"), end(stream_id="b")])
    assert socket.inputs() == [["a"], ["b"], ["A"], ["B"]]
    assert socket.told[3] == ["created", "completed"] and set(socket.ends) == {1, 2, 3, 4}


def test_an_answer_of_nothing_is_no_turn() -> None:
    assert Socket([begin("r1"), end(), ("<error", {})]).asked == {}


def test_more_turns_than_are_kept_apart_have_no_answers_and_cost_the_others_none() -> None:
    asked = [ask(input=str(number), stream_id=f"l{number}") for number in range(MAX_TURNS + 1)]
    answers = [say for n in range(MAX_TURNS + 1) for say in (begin(f"r{n}", stream_id=f"l{n}"), end(stream_id=f"l{n}"))]
    socket = Socket([*asked, *answers, ask(input="later"), begin("late"), end()])
    assert [len(told) for told in socket.told.values()] == [2] * MAX_TURNS + [0, 0]
    assert {socket.ends[number][0] for number in (MAX_TURNS + 1, MAX_TURNS + 2)} == {"aborted"}
    assert socket.turns.closed() == []


def test_frames_of_an_answer_that_cannot_be_told_apart_are_no_other_turns() -> None:
    asked = [ask(input=str(number), stream_id=f"l{number}") for number in range(MAX_TURNS + 1)]
    over = {"stream_id": f"l{MAX_TURNS}"}
    ended = [say for n in range(1, MAX_TURNS) for say in (begin(f"r{n}", stream_id=f"l{n}"), end(stream_id=f"l{n}"))]
    socket = Socket([*asked, *ended, begin("r0", stream_id="l0"), begin("x", **over), end("output_text.delta", **over)])
    assert (socket.told[1], socket.turns.closed()) == (["created"], [1])


def test_a_successor_is_not_taken_for_the_answer_that_another_lane_waits_for() -> None:
    says = [ask(input="a", stream_id="a"), begin("r1", stream_id="a"), steer("r1", "left")]
    says += [
        about("accepted", "r1", "s1", stream_id="a"),
        end("incomplete", stream_id="a"),
        ask(input="b", stream_id="b"),
    ]
    says += [begin("r2", "r1", stream_id="a"), begin("q1", stream_id="b"), end(stream_id="a"), end(stream_id="b")]
    socket = Socket(says)
    assert socket.inputs() == [["a"], ["b"], ["left"]]
    assert socket.told[2] == socket.told[3] == ["created", "completed"]
    assert set(socket.ends.values()) == {("complete", None)}


def test_what_nobody_answered_is_settled_with_the_turn_it_went_with() -> None:
    says = [steer("r", "a"), ask(input="b"), end(), steer("r", "c"), about("failed", "r"), ask(input="d"), end()]
    assert Socket(says).inputs() == [["a", "b"], ["d"]]


SAYS = st.sampled_from(
    [
        *(ask(input="x", **lane) for lane in ({}, {"stream_id": "a"}, {"previous_response_id": "r1"})),
        *(steer(target, "s") for target in ("r1", "r2")),
        *(about(verb, "r1", id_) for verb in ("accepted", "failed", "pending") for id_ in (None, "s1")),
        *(
            begin(id_, previous, **lane)
            for id_, previous in (("r1", None), ("r2", "r1"))
            for lane in ({}, {"stream_id": "a"})
        ),
        *(end(name, **lane) for name in ("completed", "output_text.delta") for lane in ({}, {"stream_id": "a"})),
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(SAYS, max_size=40))
def test_every_turn_begins_once_and_ends_once(says: list[Say]) -> None:
    socket = Socket(says)
    assert sorted([*socket.ends, *socket.turns.closed()]) == sorted(socket.asked)
    created = [told for told in socket.told.values() if told.count("created") > 1]
    assert not created
    steered = sum(frame["type"] == "response.steer" for frames in socket.asked.values() for frame in frames)
    assert steered <= sum(kind == ">response.steer" for kind, _ in says)


KINDS: dict[str, Any] = {
    '{"type":"response.create"}': "response.create",
    ' \n{ "type" : "response.create", "input": []}': "response.create",
    '{"input": "' + "x" * 5000 + '", "type": "response.create"}': "response.create",
    '{"event_id": "e", "type": "error"}': "error",
    '{"response": {"output": [{"type": "message"}]}, "type": "response.completed"}': "response.completed",
    '{"input": [{"type": "message"}], "x": "\\"type\\":\\"response.create\\""}': "message",
    "": "",
    "[]": "",
    "no JSON": "",
}


@pytest.mark.parametrize("frame", KINDS)
def test_what_a_frame_is(frame: str) -> None:
    assert kind_of(frame.encode()) == KINDS[frame]


@given(st.text(max_size=40), st.sampled_from(["response.create", "response.completed", "error"]), st.booleans())
def test_text_is_never_taken_for_a_type(text: str, kind: str, first: bool) -> None:
    said = {"delta": f'{{"type": "{kind}"}} {text}'}
    event = {"type": "other", **said} if first else {**said, "type": "other"}
    assert kind_of(json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass")) == "other"
