"""Tool calls put together from deltas that name them by number, by id, by both, or not at all."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._chat.deltas import MessageDeltas

from .test_deltas import Delta, joined


def call(name: str | None = None, arguments: str | None = None, **fields: Any) -> Delta:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


def called(*calls: Delta) -> list[tuple[Any, Any, Any]]:
    """Each tool-call delta in a delta of its own; what came of them as (id, name, arguments)."""
    message = joined(*({"tool_calls": [piece]} for piece in calls))
    return [(c.get("id"), c["function"].get("name"), c["function"].get("arguments")) for c in message["tool_calls"]]


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


def test_in_a_mixed_stream_a_piece_without_a_name_continues_what_was_last_spoken_of() -> None:
    opened = [call("f", "", index=0, id="a"), call("g", "", index=1, id="b")]
    assert called(*opened, call(None, "{1", index=0), call(None, "}"), call(None, "{2}", id="b")) == [
        ("a", "f", "{1}"),
        ("b", "g", "{2}"),
    ]
    assert called(call("f", "{}", id="a"), call("g", "{", index=1, id="b"), call(None, "}")) == [
        ("a", "f", "{}"),
        ("b", "g", "{}"),
    ]


@given(calls, st.data())
def test_calls_named_now_by_number_now_by_id_are_the_same(wanted: list[tuple[str, str]], data: st.DataObject) -> None:
    """Every piece names its call by index, by id, by both, or, where the call was the last one spoken of, not at all."""
    numbered = [data.draw(st.booleans()) for _ in wanted]
    opening = [
        call(name, "", id=f"id{number}", **({"index": number} if numbered[number] else {}))
        for number, (name, _) in enumerate(wanted)
    ]
    pending = [[number, *arguments] for number, (_, arguments) in enumerate(wanted)]
    deltas, last = [*opening], len(wanted) - 1
    while rest := [queue for queue in pending if len(queue) > 1]:
        queue = data.draw(st.sampled_from(rest))
        number = int(queue[0])
        forms: list[dict[str, Any]] = [{"index": number}, {"id": f"id{number}"}, {"index": number, "id": f"id{number}"}]
        form = data.draw(st.sampled_from([*forms, {}] if number == last else forms))
        deltas.append(call(None, str(queue.pop(1)), **form))
        last = number
    assert called(*deltas) == [(f"id{number}", name, arguments) for number, (name, arguments) in enumerate(wanted)]


def test_a_call_opened_without_a_number_may_get_one_later() -> None:
    opened = [call("f", "", id="a"), call("f", "", id="b")]
    assert called(*opened, call(None, "1", index=1, id="b"), call(None, "2", index=0)) == [
        ("a", "f", "2"),
        ("b", "f", "1"),
    ]


def test_the_same_id_under_two_numbers_is_two_calls() -> None:
    assert called(call("f", "1", index=0, id="f"), call("f", "2", index=1, id="f")) == [
        ("f", "f", "1"),
        ("f", "f", "2"),
    ]


def test_calls_that_are_all_numbered_0_may_be_interleaved() -> None:
    pieces = [call("f", "1", index=0, id="a"), call("f", "2", index=0, id="b"), call(None, "3", index=0, id="a")]
    assert called(*pieces) == [("a", "f", "13"), ("b", "f", "2")]


def test_many_calls_are_found_at_once() -> None:
    message = MessageDeltas()
    for number in range(100_000):
        message.add({"tool_calls": [call("f", "{}", id=f"c{number}")]})
    assert len(message.message()["tool_calls"]) == 100_000
