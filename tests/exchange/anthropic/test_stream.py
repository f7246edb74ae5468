"""One message from the events of a stream, of Anthropic's own servers and of those that only nearly do the same."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._anthropic.stream import StreamedMessage

Event = dict[str, Any]
USAGE = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1}


def begin(id_: str | None = "m", **fields: Any) -> Event:
    fresh = {"id": id_, "type": "message", "role": "assistant", "model": "claude"}
    return {"type": "message_start", "message": {**fresh, "content": [], "stop_reason": None, **fields}}


def opened(index: int | None, kind: str, **fields: Any) -> Event:
    numbered = {} if index is None else {"index": index}
    return {"type": "content_block_start", **numbered, "content_block": {"type": kind, **fields}}


def text(index: int | None, value: str) -> Event:
    numbered = {} if index is None else {"index": index}
    return {"type": "content_block_delta", **numbered, "delta": {"type": "text_delta", "text": value}}


def thought(index: int | None, value: str) -> Event:
    numbered = {} if index is None else {"index": index}
    return {"type": "content_block_delta", **numbered, "delta": {"type": "thinking_delta", "thinking": value}}


def argued(index: int | None, value: str) -> Event:
    numbered = {} if index is None else {"index": index}
    return {"type": "content_block_delta", **numbered, "delta": {"type": "input_json_delta", "partial_json": value}}


def stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str | None = "end_turn", **fields: Any) -> Event:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, **fields}


OVER: Event = {"type": "message_stop"}


def put_together(*events: Event) -> StreamedMessage:
    stream = StreamedMessage()
    for event in events:
        stream.add(event)
    return stream


def message(*events: Event) -> dict[str, Any]:
    return put_together(*events).message()


def content(*events: Event) -> list[dict[str, Any]]:
    return list(message(*events)["content"])


def test_a_whole_stream() -> None:
    said = message(
        begin(usage=USAGE),
        {"type": "ping"},
        opened(0, "thinking", thinking="", signature=""),
        thought(0, "hm"),
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
        stop(0),
        opened(1, "text", text=""),
        text(1, "so"),
        stop(1),
        opened(2, "tool_use", id="t", name="f", input={}),
        argued(2, '{"a"'),
        argued(2, ": 1}"),
        stop(2),
        ended("tool_use", usage={"output_tokens": 30}),
        OVER,
    )
    assert said == {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "stop_reason": "tool_use",
        "usage": {**USAGE, "output_tokens": 30},
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "so"},
            {"type": "tool_use", "id": "t", "name": "f", "input": '{"a": 1}'},
        ],
    }


def test_deltas_of_several_blocks_may_alternate() -> None:
    events = [
        opened(0, "text", text=""),
        opened(1, "text", text=""),
        text(1, "c"),
        text(0, "a"),
        text(1, "d"),
        text(0, "b"),
    ]
    assert [block["text"] for block in content(begin(), *events)] == ["ab", "cd"]


@pytest.mark.parametrize(
    "later",
    [
        [{"input_tokens": 20, "output_tokens": 5}],
        [{"output_tokens": 2}, {"input_tokens": 20, "output_tokens": 5}],
        [{"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": None}],
        [{"input_tokens": 20, "output_tokens": 5}, None],
    ],
)
def test_the_last_value_of_every_counter_holds(later: list[Any]) -> None:
    said = message(begin(usage=USAGE), *(ended(usage=usage) for usage in later))
    assert said["usage"] == {"input_tokens": 20, "cache_read_input_tokens": 4, "output_tokens": 5}


@pytest.mark.parametrize(
    "events",
    [
        [begin(), ended(usage=USAGE)],
        [begin(), ended(), {**OVER, "usage": USAGE}],
        [begin(), {"type": "message_delta", "delta": {"stop_reason": "end_turn", "usage": USAGE}}],
        [{**begin(), "usage": USAGE}, ended()],
        [begin(), {**text(0, "a"), "usage": USAGE}],
        [begin(), opened(0, "text", text=""), {**stop(0), "usage": USAGE}],
    ],
)
def test_usage_counts_wherever_a_server_puts_it(events: list[Event]) -> None:
    assert message(*events)["usage"] == USAGE
    assert "usage" not in message(begin(), ended())


def test_what_the_end_says_beyond_its_reason() -> None:
    details = {"type": "refusal", "category": "x"}
    said = message(
        begin(diagnostics={"a": 1}),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "refusal", "stop_details": details, "container": {"id": "c"}},
            "context_management": {"applied_edits": []},
        },
        {**OVER, "amazon-bedrock-invocationMetrics": {"latency": 3}},
    )
    assert (said["stop_reason"], said["stop_details"], said["container"]) == ("refusal", details, {"id": "c"})
    assert said["context_management"] == {"applied_edits": []} and said["diagnostics"] == {"a": 1}
    assert said["amazon-bedrock-invocationMetrics"] == {"latency": 3}


def test_a_reason_is_not_taken_away_by_a_later_event_without_one() -> None:
    stream = put_together(begin(), ended("max_tokens"), ended(None, usage={"output_tokens": 1}))
    assert stream.stop == {"stop_reason": "max_tokens"} and not stream.stopped


def test_the_reason_at_the_start_is_only_a_promise() -> None:
    assert "stop_reason" not in message(begin(stop_reason="end_turn"), opened(0, "text", text="a"))
    assert message(begin(stop_reason="end_turn"), opened(0, "text", text="a"), OVER)["stop_reason"] == "end_turn"


def test_no_block_needs_a_number() -> None:
    events = [
        opened(None, "text", text=""),
        text(None, "a"),
        text(None, "b"),
        opened(None, "tool_use", name="f", input={}),
    ]
    assert content(begin(), *events, argued(None, "{}"), ended()) == [
        {"type": "text", "text": "ab"},
        {"type": "tool_use", "name": "f", "input": "{}"},
    ]
    assert content(begin(), opened(0, "text", text=""), text(None, "a"))[0]["text"] == "a"
    assert content(begin(), opened(None, "text", text=""), text(3, "a")) == [{"type": "text", "text": "a"}]


def test_no_block_needs_to_be_opened_or_closed() -> None:
    assert content(begin(), thought(0, "h"), thought(0, "m"), text(1, "a"), text(1, "b"), argued(2, "{}")) == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "ab"},
        {"type": "tool_use", "input": "{}"},
    ]


def test_all_blocks_may_have_the_number_0() -> None:
    events = [
        opened(0, "thinking", thinking=""),
        thought(0, "h"),
        opened(0, "text", text=""),
        text(0, "a"),
        text(0, "b"),
    ]
    assert content(begin(), *events) == [{"type": "thinking", "thinking": "h"}, {"type": "text", "text": "ab"}]


def test_a_delta_that_its_block_cannot_take_opens_one_that_can() -> None:
    events = [opened(0, "thinking", thinking=""), thought(0, "h"), text(0, "a"), text(0, "b")]
    assert content(begin(), *events) == [{"type": "thinking", "thinking": "h"}, {"type": "text", "text": "ab"}]


def test_a_stop_for_no_block_says_nothing() -> None:
    assert content(begin(), stop(7)) == []
    open_call = content(begin(), opened(0, "tool_use", name="f", input={}), stop(7))
    assert open_call == [{"type": "tool_use", "name": "f", "input": None}]


def test_content_at_the_start_is_content() -> None:
    assert content(begin(content=[{"type": "text", "text": "a"}]), opened(0, "text", text="b")) == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


def test_the_same_start_twice_is_one() -> None:
    whole = {"type": "text", "text": "a"}
    bare = {"type": "message_start", "message": {"id": "m", "model": "", "usage": {"output_tokens": 2}}}
    for again in (begin(content=[whole]), bare):
        said = message(begin(content=[whole], usage=USAGE), again, text(None, "b"), ended(), OVER)
        assert (said["content"], said["model"]) == ([{"type": "text", "text": "ab"}], "claude")
        assert "restarts" not in said


def test_what_later_events_repeat_takes_nothing_away() -> None:
    said = message(begin(), {**ended(), "id": "other", "model": "", "role": "x", "new": 1}, {**OVER, "new": 2})
    assert (said["id"], said["model"], said["role"], said["new"]) == ("m", "claude", "assistant", 2)
    assert message(begin(), {**text(0, "a"), "obfuscation": "x"})["obfuscation"] == "x"


def test_a_second_message_in_one_stream_stays_apart() -> None:
    stream = put_together(
        begin("first", usage=USAGE),
        opened(0, "tool_use", id="t1", name="f", input={}),
        argued(0, '{"a": "Sp'),
        opened(1, "tool_use", id="t2", name="g", input={}),
        begin("second", usage={"input_tokens": 8, "output_tokens": 0}),
        begin("second", usage={"input_tokens": 8, "output_tokens": 0}),
        opened(0, "tool_use", id="t3", name="f", input={}),
        argued(0, '{"a": "Spark"}'),
        stop(0),
        ended("tool_use", usage={"output_tokens": 5}),
        OVER,
    )
    said = stream.message()
    assert [(block["id"], block["input"]) for block in said["content"]] == [
        ("t1", '{"a": "Sp'),
        ("t2", None),
        ("t3", '{"a": "Spark"}'),
    ]
    assert (said["id"], said["usage"]["input_tokens"], said["usage"]["output_tokens"]) == ("first", 8, 5)
    assert [start["id"] for start in said["restarts"]] == ["second"]


def test_a_second_message_has_an_end_of_its_own() -> None:
    stream = put_together(begin("first"), opened(0, "text", text="a"), ended(), OVER, begin("second"), text(0, "b"))
    assert (stream.stop, stream.stopped) == ({}, False)
    assert [block["text"] for block in stream.message()["content"]] == ["a", "b"]
    assert stream.message()["restarts"][0]["before"] == {"stop_reason": "end_turn"}
    unnumbered = content(begin("first"), text(None, "a"), begin("second"), text(None, "b"))
    assert [block["text"] for block in unnumbered] == ["a", "b"]


def test_the_last_fallback_names_the_model() -> None:
    hops = [opened(number, "fallback", to={"model": model}) for number, model in enumerate(("b", "c"))]
    assert message(begin(), *hops, ended())["model"] == "c"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "error": {"type": "overloaded_error"}}, {"type": "overloaded_error"}),
        ({"error": {"code": 1}}, {"code": 1}),
        ({"type": "error", "detail": "x"}, {"detail": "x"}),
        ({"type": "error"}, "an error event without a word"),
    ],
)
def test_an_error_leaves_what_had_come(event: Event, error: Any) -> None:
    stream = put_together(
        begin(), opened(0, "text", text=""), text(0, "par"), {**event, "request_id": "r"} if "error" in event else event
    )
    assert stream.error == error
    assert stream.message()["content"] == [{"type": "text", "text": "par"}]
    assert stream.message().get("request_id") == ("r" if "error" in event else None)
    assert "events" not in stream.message()


def test_events_that_nobody_heard_of_are_kept() -> None:
    new: list[Event] = [{"type": "vertex_event", "x": 1}, {"nothing": 1}]
    assert message(begin(), *new)["events"] == new
    assert not put_together({"type": "ping"}, *new).said


@pytest.mark.parametrize("event", [begin(), text(0, "a"), ended(), opened(0, "text")])
def test_what_is_something_of_a_message(event: Event) -> None:
    assert put_together(event).said


@pytest.mark.parametrize(
    "event",
    [
        {"type": "message_start", "message": 5},
        {"type": "message_start", "message": {"usage": 5}},
        {"type": "message_start", "message": {"id": "m", "content": [5]}},
        {"type": "content_block_start", "index": 0, "content_block": "text"},
        {"type": "content_block_delta", "index": 0, "delta": [1]},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {"type": "message_delta", "delta": "x"},
        {"type": "message_delta", "usage": [1]},
    ],
)
def test_an_event_that_is_none_is_refused(event: Event) -> None:
    with pytest.raises(ValueError):
        put_together(event)


def test_a_big_stream_is_put_together_in_one_pass() -> None:
    many = [text(0, "word ")] * 100_000
    (block,) = content(begin(), opened(0, "text", text=""), *many)
    assert len(block["text"]) == 500_000
