"""Output items put together from the events of a stream."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Unparseable
from stepwell.exchange._responses.deltas import OutputDeltas

Event = tuple[str, dict[str, Any]]


def items(*events: Event) -> list[dict[str, Any]]:
    deltas = OutputDeltas()
    for kind, event in events:
        assert deltas.add(f"response.{kind}", event), kind
    return deltas.items()


def added(item: dict[str, Any], index: int | None = 0) -> Event:
    return "output_item.added", {"item": item, **({} if index is None else {"output_index": index})}


def done(item: dict[str, Any], index: int = 0) -> Event:
    return "output_item.done", {"item": item, "output_index": index}


def at(kind: str, index: int | None = 0, **fields: Any) -> Event:
    return kind, {**({} if index is None else {"output_index": index}), **fields}


MESSAGE = {"type": "message", "id": "m", "role": "assistant", "status": "in_progress", "content": []}


def test_a_message_from_its_pieces() -> None:
    part = {"type": "output_text", "text": "", "annotations": []}
    assert items(
        added(MESSAGE),
        at("content_part.added", content_index=0, part=part),
        at("output_text.delta", content_index=0, delta="fo", logprobs=[{"token": "fo"}]),
        at("output_text.delta", content_index=0, delta="ur", logprobs=[{"token": "ur"}]),
        at("output_text.annotation.added", content_index=0, annotation={"url": "u"}),
        at("content_part.added", content_index=1, part={"type": "refusal", "refusal": ""}),
        at("refusal.delta", content_index=1, delta="no"),
    ) == [
        {
            **MESSAGE,
            "content": [
                {
                    "type": "output_text",
                    "text": "four",
                    "annotations": [{"url": "u"}],
                    "logprobs": [{"token": "fo"}, {"token": "ur"}],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("events", "item"),
    [
        (
            [
                at("function_call_arguments.delta", item_id="f", delta='{"a":'),
                at("function_call_arguments.delta", item_id="f", delta="1}"),
            ],
            {"id": "f", "type": "function_call", "arguments": '{"a":1}'},
        ),
        (
            [at("function_call_arguments.done", item_id="f", name="add", arguments='{"a":1}')],
            {"id": "f", "type": "function_call", "name": "add", "arguments": '{"a":1}'},
        ),
        ([at("custom_tool_call_input.delta", delta="ls")], {"type": "custom_tool_call", "input": "ls"}),
        ([at("mcp_call_arguments.delta", delta="{}")], {"type": "mcp_call", "arguments": "{}"}),
        ([at("mcp_call_arguments.delta", delta={"a": 1})], {"type": "mcp_call", "arguments": '{"a":1}'}),
        (
            [at("code_interpreter_call_code.delta", delta="1+"), at("code_interpreter_call_code.delta", delta="1")],
            {"type": "code_interpreter_call", "code": "1+1"},
        ),
        (
            [
                at("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text", "text": ""}),
                at("reasoning_summary_text.delta", summary_index=0, delta="a"),
                at("reasoning_summary_text.delta", summary_index=1, delta="b"),
                at("reasoning_text.delta", content_index=0, delta="c"),
            ],
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
                "content": [{"type": "reasoning_text", "text": "c"}],
            },
        ),
        (
            [at("reasoning_summary.delta", summary_index=0, delta={"text": "a"})],
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
        ),
        (
            [
                at("shell_call_command.added", command_index=0, command=""),
                at("shell_call_command.delta", command_index=0, delta="ls"),
                at("shell_call_command.delta", command_index=1, delta="pwd"),
                at("shell_call_command.done", command_index=1, command="pwd -P"),
            ],
            {"type": "shell_call", "action": {"commands": ["ls", "pwd -P"]}},
        ),
        (
            [
                at("apply_patch_call_operation_diff.delta", delta="+a"),
                at("apply_patch_call_operation_diff.done", diff=""),
            ],
            {"type": "apply_patch_call", "operation": {"diff": "+a"}},
        ),
        (
            [
                at("shell_call_output_content.delta", command_index=0, delta={"stdout": "a"}),
                at("shell_call_output_content.delta", command_index=0, delta={"stdout": "b", "stderr": "c"}),
            ],
            {"type": "shell_call_output", "output": [{"stdout": "ab", "stderr": "c"}]},
        ),
        (
            [
                at("shell_call_output_content.delta", command_index=0, delta={"stdout": "a"}),
                at("shell_call_output_content.done", command_index=0, output=[{"stdout": "a", "outcome": {}}]),
            ],
            {"type": "shell_call_output", "output": [{"stdout": "a", "outcome": {}}]},
        ),
        (
            [
                at("image_generation_call.partial_image", partial_image_b64="AA"),
                at("image_generation_call.partial_image", partial_image_b64="BB"),
            ],
            {"type": "image_generation_call", "partial_image_b64": "BB"},
        ),
    ],
)
def test_every_kind_of_piece(events: list[Event], item: dict[str, Any]) -> None:
    assert items(*events) == [item]


def test_what_an_item_says_at_its_end_stands() -> None:
    final = {**MESSAGE, "status": "completed", "content": [{"type": "output_text", "text": "whole"}]}
    assert items(added(MESSAGE), at("output_text.delta", content_index=0, delta="wh"), done(final)) == [final]


def test_what_an_item_leaves_empty_at_its_end_is_filled_from_its_pieces() -> None:
    events = [added(MESSAGE), at("output_text.delta", content_index=0, delta="four"), done(MESSAGE)]
    assert items(*events) == [{**MESSAGE, "content": [{"type": "output_text", "text": "four"}]}]


def test_a_picture_that_is_done_needs_no_draft() -> None:
    final = {"type": "image_generation_call", "id": "ig", "result": "CC"}
    assert items(at("image_generation_call.partial_image", item_id="ig", partial_image_b64="AA"), done(final)) == [
        final
    ]


def test_items_come_in_the_order_of_their_numbers() -> None:
    first, second = {"type": "web_search_call", "id": "a"}, {"type": "web_search_call", "id": "b"}
    assert items(added(second, 1), added(first, 0)) == [first, second]


@pytest.mark.parametrize("id_", [True, False])
def test_servers_that_number_every_item_0_lose_none(id_: bool) -> None:
    def call(name: str) -> dict[str, Any]:
        return {
            "type": "function_call",
            "call_id": name,
            "name": name,
            "arguments": "",
            **({"id": name} if id_ else {}),
        }

    events: list[Event] = []
    for name in ("f", "g"):
        delta = at("function_call_arguments.delta", delta=f"{{{name}}}", item_id=name if id_ else None)
        events += [added(call(name)), delta, done({**call(name), "arguments": f"{{{name}}}"})]
    assert [(item["name"], item["arguments"]) for item in items(*events)] == [("f", "{f}"), ("g", "{g}")]


def test_an_item_whose_id_changes_is_still_one() -> None:
    final = {"type": "tool_search_call", "id": "second", "arguments": {}}
    assert items(added({**final, "id": "first"}), done(final)) == [final]


def test_events_that_name_the_item_anew_each_time_are_of_their_number() -> None:
    events = [at("output_text.delta", item_id=f"random{n}", content_index=0, delta=str(n)) for n in range(3)]
    (item,) = items(added(MESSAGE), *events)
    assert item["content"] == [{"type": "output_text", "text": "012"}]


def test_pieces_with_another_id_after_an_item_is_done_are_of_another_item() -> None:
    final = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}"}
    found = items(added(final), done(final), at("function_call_arguments.delta", item_id="g", delta="[]"))
    assert [(item["id"], item["arguments"]) for item in found] == [("f", "{}"), ("g", "[]")]


def test_pieces_without_number_and_id_belong_to_the_last_item() -> None:
    (item,) = items(
        added(MESSAGE, None), at("output_text.delta", None, delta="a"), at("output_text.delta", None, delta="b")
    )
    assert item["content"] == [{"type": "output_text", "text": "ab"}]


@pytest.mark.parametrize("kind", ["web_search_call.searching", "mcp_call.failed", "compaction.compacting"])
def test_progress_is_known_and_says_nothing(kind: str) -> None:
    assert items((kind, {"output_index": 0})) == []


def test_what_is_unknown_is_said_to_be() -> None:
    assert not OutputDeltas().add("codex.rate_limits", {})
    assert not OutputDeltas().add("response.audio.delta", {"delta": "AA"})


@pytest.mark.parametrize(
    "event",
    [
        ("output_item.added", {"item": 3}),
        ("output_item.done", {}),
        ("content_part.added", {"part": 3}),
    ],
)
def test_what_the_api_does_not_promise_is_unparseable(event: Event) -> None:
    with pytest.raises(Unparseable):
        items(event)


TEXT = st.text(max_size=12)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[list[Event]]]:
    """A few items, and for each the events of its stream, its texts split anywhere."""
    whole: list[dict[str, Any]] = []
    streams: list[list[Event]] = []
    for index in range(draw(st.integers(1, 3))):
        id_, text = f"i{index}", draw(TEXT)
        kind = draw(st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call"]))
        forms: dict[str, tuple[str, dict[str, Any]]] = {
            "message": ("output_text", {"content": [{"type": "output_text", "text": text}]}),
            "reasoning": ("reasoning_summary_text", {"summary": [{"type": "summary_text", "text": text}]}),
            "function_call": ("function_call_arguments", {"arguments": text}),
            "custom_tool_call": ("custom_tool_call_input", {"input": text}),
        }
        subject, item = forms[kind]
        own: dict[str, Any] = {"type": kind, "id": id_, **({"role": "assistant"} if kind == "message" else {})}
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        named = {"item_id": id_} if draw(st.booleans()) else {}
        events = [added(own, index), *(at(f"{subject}.delta", index, delta=piece, **named) for piece in pieces)]
        if draw(st.booleans()):
            events.append(done({**own, **item}, index))
        whole.append({**own, **item})
        streams.append(events)
    return whole, streams


@settings(max_examples=150, deadline=None)
@given(streams(), st.randoms(use_true_random=False))
def test_items_may_grow_side_by_side(made: tuple[list[dict[str, Any]], list[list[Event]]], random: Any) -> None:
    whole, streams = made
    waiting = [list(events) for events in streams]
    events = []
    while waiting:
        chosen = random.choice(waiting)
        events.append(chosen.pop(0))
        waiting = [left for left in waiting if left]
    assert items(*events) == whole


def test_a_long_text_is_joined_once() -> None:
    (item,) = items(added(MESSAGE), *[at("output_text.delta", content_index=0, delta="ab")] * 50_000)
    assert item["content"][0]["text"] == "ab" * 50_000
