"""A candidate from the pieces of a stream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.exchange import Unparseable
from stepwell.exchange._gemini.deltas import CandidateDeltas

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def joined(*pieces: dict[str, Any]) -> dict[str, Any]:
    deltas = CandidateDeltas(vertex=False)
    for piece in pieces:
        deltas.add(piece)
    return deltas.whole()


def parts(*given: dict[str, Any], ended: bool = True) -> list[Any]:
    """The parts that came one by one, each in a piece of its own."""
    pieces: list[dict[str, Any]] = [{"content": {"parts": [part], "role": "model"}} for part in given]
    candidate = joined(*pieces, {"finishReason": "STOP"} if ended else {})
    content = candidate["content"]
    assert content.get("role") == ("model" if given else None)
    return list(content["parts"])


def test_neighbouring_texts_are_one_and_so_are_thoughts() -> None:
    assert parts(
        {"text": "h", "thought": True},
        {"text": "m", "thought": True},
        {"text": "so"},
        {"text": ""},
        {"text": " it"},
        {"text": " is", "thought_signature": "s"},
        {"text": "!"},
        {"text": "", "thoughtSignature": "t"},
        {"text": ""},
    ) == [
        {"text": "hm", "thought": True},
        {"text": "so it is", "thoughtSignature": "s"},
        {"text": "!", "thoughtSignature": "t"},
    ]


def test_other_parts_stand_between_texts() -> None:
    code = {"executableCode": {"code": "1"}}
    assert parts({"text": "a"}, code, {"text": "b"}, {"text": "c", "partMetadata": {}}, {"text": "d"}) == [
        *({"text": "a"}, code, {"text": "b"}, {"text": "c", "partMetadata": {}}, {"text": "d"}),
    ]


def test_calls_that_come_whole() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}, "id": "1"}, "thoughtSignature": "s"}
    other = {"functionCall": {"name": "f", "args": {"a": 2}}}
    bare: dict[str, Any] = {"functionCall": {"name": "g"}}
    assert parts(call, other, other, bare) == [call, other, other, bare]


def piece(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def at(path: str, text: str, more: bool) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": text, "willContinue": more}


def test_calls_whose_arguments_come_in_pieces() -> None:
    assert parts(
        {**piece(name="f", willContinue=True), "thoughtSignature": "s"},
        piece(partialArgs=[at("$.a", "1", True)], willContinue=True),
        piece(partialArgs=[at("$.a", "2", False), {"jsonPath": "$.b", "numberValue": 3}], willContinue=True),
        {"functionCall": {}},
        piece(name="f", will_continue=True),
        piece(partial_args=[{"json_path": "$.a", "string_value": "4"}]),  # the last piece says itself that it is
        piece(name="g", willContinue=True),  # never ended: the next call has a name
        piece(name="h", args={"x": 1}),
        {"functionCall": {}},  # the end of nothing
        piece(name="i", partialArgs=[at("$.z", "9", False)], args={"y": 0}),
    ) == [
        {"functionCall": {"name": "f", "args": {"a": "12", "b": 3}}, "thoughtSignature": "s"},
        {"functionCall": {"name": "f", "args": {"a": "4"}}},
        {"functionCall": {"name": "g"}},
        {"functionCall": {"name": "h", "args": {"x": 1}}},
        {"functionCall": {"name": "i", "args": {"y": 0, "z": "9"}}},
    ]


def test_an_id_says_which_call_a_piece_continues() -> None:
    assert parts(
        piece(name="f", id="1", willContinue=True),
        piece(name="f", id="1", partialArgs=[at("$.a", "x", False)], willContinue=True),
        piece(name="f", id="2", willContinue=True),
        piece(id="2", args={"late": True}),
    ) == [
        {"functionCall": {"name": "f", "id": "1", "args": {"a": "x"}}},
        {"functionCall": {"name": "f", "id": "2", "args": {"late": True}}},
    ]


def test_a_call_that_was_cut_keeps_the_text_that_had_come() -> None:
    begun = [piece(name="f", willContinue=True), piece(partialArgs=[at("$.a", "par", True)], willContinue=True)]
    assert parts(*begun, ended=False) == [{"functionCall": {"name": "f", "args": '{"a":"par'}}]
    assert parts(*begun[:1], ended=False) == [{"functionCall": {"name": "f", "args": ""}}]
    # The end of its answer ends a call too: the closing piece is sometimes missing.
    assert parts(*begun) == [{"functionCall": {"name": "f", "args": {"a": "par"}}}]
    over = [*begun, piece(partialArgs=[at("$.a", "t", False)])]  # this call had ended, its answer had not
    assert parts(*over, ended=False) == [{"functionCall": {"name": "f", "args": {"a": "part"}}}]
    two = [piece(name="g"), *begun]
    assert parts(*two, ended=False)[0] == {"functionCall": {"name": "g"}}


def test_pieces_of_arguments_that_lead_nowhere_stay() -> None:
    odd = {"jsonPath": "nowhere", "stringValue": "x"}
    assert parts(piece(name="f", partialArgs=[odd, at("$.a", "b", False)])) == [
        {"functionCall": {"name": "f", "args": {"a": "b"}, "partialArgs": [odd]}}
    ]


def test_arguments_without_a_call_are_a_call_without_a_name() -> None:
    assert parts(piece(partialArgs=[at("$.a", "b", False)])) == [{"functionCall": {"args": {"a": "b"}}}]
    assert parts(piece(name="f"), piece(args={"a": 1})) == [
        {"functionCall": {"name": "f"}},
        {"functionCall": {"args": {"a": 1}}},
    ]


def test_fields_beside_the_content() -> None:
    candidate = joined(
        {"index": 0, "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": [1]}},
        {
            "citationMetadata": {"citationSources": [{"uri": "a"}]},
            "urlContextMetadata": {"urlMetadata": [1]},
            "logprobsResult": {"chosenCandidates": [{"token": "a"}], "topCandidates": [{"candidates": []}]},
            "finish_reason": "FINISH_REASON_UNSPECIFIED",
        },
        {
            "citationMetadata": {"citationSources": [{"uri": "a"}, {"uri": "b"}]},
            "groundingMetadata": {"groundingChunks": [1, 2], "webSearchQueries": []},
            "logprobsResult": {"chosenCandidates": [{"token": "a"}], "topCandidates": [{"candidates": []}]},
            "safetyRatings": [1],
        },
        {"groundingMetadata": {}, "urlContextMetadata": {}, "safetyRatings": [2], "avgLogprobs": -0.5},
        {"finishReason": 1, "finishMessage": "done"},
        {"finishReason": None},
        {"finishReason": 0},
    )
    assert candidate == {
        "index": 0,
        "groundingMetadata": {"webSearchQueries": ["q"], "groundingChunks": [1, 2]},
        "urlContextMetadata": {"urlMetadata": [1]},
        "citationMetadata": {"citationSources": [{"uri": "a"}, {"uri": "b"}]},
        "logprobsResult": {
            "chosenCandidates": [{"token": "a"}, {"token": "a"}],
            "topCandidates": [{"candidates": []}, {"candidates": []}],
        },
        "safetyRatings": [2],
        "avgLogprobs": -0.5,
        "finishReason": 1,
        "finishMessage": "done",
        "content": {"parts": []},
    }


def test_a_candidate_is_finished_once_it_says_why() -> None:
    deltas = CandidateDeltas(vertex=False)
    pieces: list[tuple[dict[str, Any], bool]] = [
        *(({"finishReason": 0}, False), ({}, False), ({"finishReason": "STOP"}, True), ({}, True)),
    ]
    for fields, finished in pieces:
        deltas.add(fields)
        assert deltas.finished == finished


@pytest.mark.parametrize("content", [5, "text", [], {"parts": 5}, {"parts": [5]}, {"parts": ["a"]}])
def test_what_is_no_content(content: object) -> None:
    with pytest.raises(Unparseable):
        joined({"content": content})


texts = st.fixed_dictionaries({"text": st.text(max_size=3)}, optional={"thought": st.booleans()})


@unhurried
@given(st.lists(texts, max_size=8), st.integers(1, 4))
def test_texts_are_the_same_however_they_are_cut_into_pieces(given: list[dict[str, Any]], size: int) -> None:
    split = [
        {**part, "text": part["text"][start : start + size]}
        for part in given
        for start in range(0, max(1, len(part["text"])), size)
    ]
    assert parts(*split) == parts(*given)
    for thought in (True, False):
        said = [part["text"] for part in given if bool(part.get("thought")) == thought]
        assert "".join(p["text"] for p in parts(*split) if bool(p.get("thought")) == thought) == "".join(said)
    kinds = [bool(part.get("thought")) for part in parts(*split)]
    assert all(one != next_ for one, next_ in pairwise(kinds))
