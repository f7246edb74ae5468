"""A message from the deltas of a stream, in any order and any number of pieces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange import Unparseable
from stepwell.exchange._chat_deltas import MessageDeltas

Delta = dict[str, Any]


def joined(*deltas: Delta) -> Delta:
    message = MessageDeltas()
    for delta in deltas:
        message.add(delta)
    return message.message()


def call(name: str | None = None, arguments: str | None = None, **fields: Any) -> Delta:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


def called(*calls: Delta) -> list[tuple[Any, Any, Any]]:
    """Each tool-call delta in a delta of its own; what came of them as (id, name, arguments)."""
    message = joined(*({"tool_calls": [piece]} for piece in calls))
    return [(c.get("id"), c["function"].get("name"), c["function"].get("arguments")) for c in message["tool_calls"]]


def test_texts_of_every_name_are_joined() -> None:
    assert joined(
        {"role": "assistant", "content": ""},
        {"reasoning_content": "h"},
        {"reasoning_content": "m", "content": None},
        {"content": "so"},
        {"reasoning": "x", "refusal": "n"},
        {"content": " be it", "refusal": "o"},
    ) == {"role": "assistant", "content": "so be it", "reasoning_content": "hm", "reasoning": "x", "refusal": "no"}


def test_nothing_said_is_nothing() -> None:
    assert joined() == {}
    assert joined({"content": None, "tool_calls": None, "function_call": None, "refusal": None, "audio": None}) == {}


def test_numbered_calls_interleaved() -> None:
    assert called(
        call("f", "", index=0, id="a", type="function"),
        call("g", "", index=1, id="b"),
        call(None, "{1", index=0),
        call(None, "{2", index=1),
        call(None, "}", index=0),
        call(None, "}", index=1),
    ) == [("a", "f", "{1}"), ("b", "g", "{2}")]


def test_numbers_need_not_begin_at_0() -> None:
    assert called(call("f", "{}", index=1, id="a")) == [("a", "f", "{}")]


def test_calls_without_a_number_go_by_id() -> None:
    assert called(
        call("f", "{1", id="a"), call(None, "}"), call("g", "{2", id="b"), call(None, "}"), call(None, "!", id="a")
    ) == [("a", "f", "{1}!"), ("b", "g", "{2}")]


def test_calls_with_neither_number_nor_id_go_by_name() -> None:
    assert called(call("f", "{1"), call(None, "}"), call("f", "{2}"), call("g", "{}")) == [
        (None, "f", "{1}"),
        (None, "f", "{2}"),
        (None, "g", "{}"),
    ]
    assert called(call("f", "{1}", id=""), call("g", "{2}", id="")) == [(None, "f", "{1}"), (None, "g", "{2}")]


def test_all_calls_numbered_0_with_ids_of_their_own() -> None:
    assert called(
        call("f", "{1", index=0, id="a"),
        call(None, "}", index=0),
        call("g", "{2", index=0, id="b"),
        call(None, "}", index=0),
    ) == [("a", "f", "{1}"), ("b", "g", "{2}")]


def test_all_calls_numbered_0_without_ids() -> None:
    assert called(call("f", "{1}", index=0, id=""), call("g", "{2}", index=0, id="")) == [
        (None, "f", "{1}"),
        (None, "g", "{2}"),
    ]


def test_what_is_repeated_with_each_piece_is_said_once() -> None:
    piece = {"index": 0, "id": "a", "type": "function"}
    assert called(call("f", "{", **piece), call("f", "1", **piece), call("f", "}", **piece)) == [("a", "f", "{1}")]


def test_an_empty_id_or_name_later_takes_nothing_away() -> None:
    assert called(call("f", "{", index=0, id="a"), call("", "}", index=0, id="")) == [("a", "f", "{}")]
    assert called(call("f", "{", index=0, id="a"), call(None, "}", index=0, id=None)) == [("a", "f", "{}")]


def test_an_id_that_comes_late() -> None:
    assert called(call("f", "{", index=0), call(None, "}", index=0, id="a")) == [("a", "f", "{}")]


def test_several_calls_in_one_delta_and_numbered_ones_after_others() -> None:
    message = joined(
        {"tool_calls": [call("f", "{", index=0, id="a"), call("g", "{", index=1, id="b")]},
        {"tool_calls": [call(None, "2}", index=1), call(None, "1}", index=0)]},
    )
    assert [c["function"]["arguments"] for c in message["tool_calls"]] == ["{1}", "{2}"]


def test_arguments_that_are_no_text() -> None:
    assert called(call("f", {"a": 1}, index=0, id="a")) == [("a", "f", '{"a":1}')]  # type: ignore[arg-type]
    assert called(call("f", None, index=0, id="a")) == [("a", "f", None)]


def test_custom_tools_and_legacy_calls() -> None:
    custom = {"index": 0, "id": "a", "type": "custom"}
    message = joined(
        {"tool_calls": [{**custom, "custom": {"name": "sh", "input": ""}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "ls "}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "-l"}}]},
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": "{"}},
        {"function_call": {"name": "", "arguments": "}"}},
    )
    assert message["tool_calls"] == [{"id": "a", "type": "custom", "custom": {"name": "sh", "input": "ls -l"}}]
    assert message["function_call"] == {"name": "f", "arguments": "{}"}


def test_content_in_parts() -> None:
    def thinking(text: str) -> Delta:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}

    message = joined(
        {"content": [thinking("h")]},
        {"content": [thinking("m")]},
        {"content": [{"type": "text", "text": "so"}]},
        {"content": " be"},
        {"content": [{"type": "text", "text": " it"}, {"type": "image_url", "image_url": {"url": "u"}}, {"type": "x"}]},
        {"content": ""},
    )
    assert message["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]},
        {"type": "text", "text": "so be it"},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "x"},
    ]


def test_reasoning_details_annotations_and_audio_are_kept_whole() -> None:
    def detail(text: str, **more: Any) -> Delta:
        return {"type": "reasoning.text", "text": text, **more}

    message = joined(
        {"reasoning_details": [detail("h", index=0)], "annotations": [1]},
        {
            "reasoning_details": [detail("m", index=0, signature="s")],
            "audio": {"id": "a", "data": "eA", "transcript": "ho"},
        },
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "=="}, detail("new", index=1)]},
        {"audio": {"data": "==", "transcript": " ho", "expires_at": 5}, "annotations": [2, 3]},
    )
    assert message == {
        "reasoning_details": [
            detail("hm", index=0, signature="s"),
            {"type": "reasoning.encrypted", "data": "=="},
            detail("new", index=1),
        ],
        "annotations": [1, 2, 3],
        "audio": {"id": "a", "data": "eA==", "transcript": "ho ho", "expires_at": 5},
    }


@pytest.mark.parametrize(
    "delta",
    [
        {"content": 5},
        {"content": {"text": "x"}},
        {"tool_calls": {}},
        {"tool_calls": 5},
        {"tool_calls": ["x"]},
        {"tool_calls": [None]},
        {"tool_calls": [{"function": "f"}]},
        {"tool_calls": [{"custom": []}]},
    ],
)
def test_what_the_api_does_not_promise_is_unparseable(delta: Delta) -> None:
    with pytest.raises(Unparseable):
        joined(delta)


def test_kinds_that_change_do_no_harm() -> None:
    assert joined({"reasoning": {"a": 1}}, {"reasoning": "x"}) == {"reasoning": "x"}
    assert joined({"x": 1}, {"x": [1]}, {"x": [2]}, {"x": {"y": 1}}) == {"x": {"y": 1}}
    assert joined({"audio": "x"}, {"audio": {"data": "eA=="}})["audio"] == {"data": "eA=="}


calls = st.lists(st.tuples(st.sampled_from(["f", "g"]), st.text(max_size=12)), min_size=1, max_size=4)


@given(calls, st.data())
def test_calls_are_the_same_however_they_are_cut_and_mixed(wanted: list[tuple[str, str]], data: st.DataObject) -> None:
    pending: list[list[Delta]] = []
    for number, (name, arguments) in enumerate(wanted):
        cuts = sorted(data.draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
        pieces = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        first = call(name, pieces[0], index=number, id=f"id{number}", type="function")
        pending.append([first, *(call(None, piece, index=number) for piece in pieces[1:])])
    order: list[Delta] = [queue.pop(0) for queue in pending]
    while rest := [queue for queue in pending if queue]:
        order.append(data.draw(st.sampled_from(rest)).pop(0))
    assert called(*order) == [(f"id{number}", name, arguments) for number, (name, arguments) in enumerate(wanted)]


def test_many_pieces_are_joined_in_one_pass() -> None:
    """300 000 deltas of 100 characters: adding strings up would copy 4 TB."""
    message = MessageDeltas()
    piece = "x" * 100
    for _ in range(150_000):
        message.add({"content": piece})
        message.add({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": piece}}]})
    whole = message.message()
    assert len(whole["content"]) == len(whole["tool_calls"][0]["function"]["arguments"]) == 15_000_000


def test_many_calls_are_found_at_once() -> None:
    message = MessageDeltas()
    for number in range(100_000):
        message.add({"tool_calls": [call("f", "{}", id=f"c{number}")]})
    assert len(message.message()["tool_calls"]) == 100_000
