"""Content blocks from the pieces of a Converse stream: in any order that the protocol allows, split anywhere."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange import Unparseable
from stepwell.exchange._bedrock.deltas import BlockDeltas

Event = tuple[str, dict[str, Any]]


def start(index: int | None, **fields: Any) -> Event:
    return "start", {**({} if index is None else {"contentBlockIndex": index}), "start": fields}


def delta(index: int | None, **fields: Any) -> Event:
    return "add", {**({} if index is None else {"contentBlockIndex": index}), "delta": fields}


def stop(index: int) -> Event:
    return "stop", {"contentBlockIndex": index}


def made(*events: Event) -> list[dict[str, Any]]:
    deltas = BlockDeltas()
    for name, event in events:
        getattr(deltas, name)(event)
    return deltas.blocks()


def thought(**fields: Any) -> dict[str, Any]:
    return {"reasoningContent": fields}


def test_text_without_a_start() -> None:
    assert made(delta(0, text="a"), delta(0, text="b"), stop(0)) == [{"text": "ab"}]


def test_an_empty_text_is_no_block() -> None:
    assert made(delta(0, text=""), stop(0), delta(1, text="b")) == [{"text": "b"}]


def test_a_call_keeps_the_text_of_its_input() -> None:
    use = {"toolUseId": "i", "name": "f"}
    events = [start(0, toolUse=use), delta(0, toolUse={"input": ""}), delta(0, toolUse={"input": '{"a"'})]
    assert made(*events) == [{"toolUse": {**use, "input": '{"a"'}}]
    assert made(*events, delta(0, toolUse={"input": ": 1.0}"})) == [{"toolUse": {**use, "input": '{"a": 1.0}'}}]
    assert made(start(0, toolUse=use)) == [{"toolUse": {**use, "input": ""}}]
    assert made(delta(0, toolUse={"input": "{}"})) == [{"toolUse": {"name": "", "input": "{}"}}]
    assert made(start(0, toolUse=use), delta(0, toolUse={"input": {"a": 1}})) == [
        {"toolUse": {**use, "input": '{"a":1}'}}
    ]


def test_a_call_of_the_providers_own_tool_is_one_like_any_other() -> None:
    use = {"toolUseId": "i", "name": "run", "type": "server_tool_use"}
    assert made(start(0, toolUse=use), delta(0, toolUse={"input": '{"a"'}), delta(0, toolUse={"input": ": 1}"})) == [
        {"toolUse": {**use, "input": '{"a": 1}'}}
    ]


def test_a_result_of_the_providers_own_tool() -> None:
    result = {"toolUseId": "i", "type": "run_result", "status": "success"}
    events = [start(0, toolResult=result), delta(0, toolResult=[{"text": "a"}, {"text": "b"}])]
    events += [delta(0, toolResult=[{"json": {"n": 1}}]), delta(0, toolResult=[{"text": "c"}])]
    assert made(*events) == [{"toolResult": {**result, "content": [{"text": "ab"}, {"json": {"n": 1}}, {"text": "c"}]}}]


def test_reasoning_with_its_signature() -> None:
    events = [delta(0, **thought(text="h")), delta(0, **thought(text="m")), delta(0, **thought(signature="s"))]
    assert made(*events) == [thought(reasoningText={"text": "hm", "signature": "s"})]
    assert made(*events, delta(0, **thought(signature="t"))) == [
        thought(reasoningText={"text": "hm", "signature": "st"})
    ]
    assert made(delta(0, **thought(signature="s"))) == [thought(reasoningText={"text": "", "signature": "s"})]


def test_redacted_reasoning_in_pieces_is_joined_as_bytes() -> None:
    pieces = [base64.b64encode(piece).decode() for piece in (b"a", b"bc")]
    assert made(*(delta(0, **thought(redactedContent=piece)) for piece in pieces)) == [
        thought(redactedContent=base64.b64encode(b"abc").decode())
    ]
    assert made(delta(0, **thought(redactedContent="no base64"))) == [thought(redactedContent="no base64")]
    assert made(delta(0, **thought(redactedContent="!")), delta(0, **thought(redactedContent="?"))) == [
        thought(redactedContent="!?")
    ]


def test_a_thought_and_the_text_after_it_under_one_index_are_two_blocks() -> None:
    assert made(delta(0, **thought(text="hm")), delta(0, text="a"), delta(0, **thought(text="so"))) == [
        thought(reasoningText={"text": "hm"}), {"text": "a"}, thought(reasoningText={"text": "so"}),
    ]  # fmt: skip


def test_citations_stand_with_their_text_whichever_came_first() -> None:
    cited = {"citationsContent": {"content": [{"text": "ab"}], "citations": [{"title": "1"}, {"title": "2"}]}}
    assert made(
        delta(1, citation={"title": "1"}), delta(1, text="a"), delta(1, citation={"title": "2"}), delta(1, text="b")
    ) == [cited]


def test_an_image_in_pieces() -> None:
    pieces = [base64.b64encode(piece).decode() for piece in (b"pi", b"cture")]
    events = [delta(0, image={"source": {"bytes": piece}}) for piece in pieces]
    whole = base64.b64encode(b"picture").decode()
    assert made(start(0, image={"format": "png"}), *events) == [
        {"image": {"format": "png", "source": {"bytes": whole}}}
    ]
    error = {"error": {"message": "no"}}
    assert made(start(0, image={"format": "png"}), delta(0, image=error)) == [{"image": {"format": "png", **error}}]


def test_what_is_not_known_is_kept() -> None:
    assert made(start(0, poem={"metre": 5}), delta(0, poem="roses"), delta(0, poem={"are": "red"})) == [
        {"poem": {"start": {"metre": 5}, "deltas": ["roses", {"are": "red"}]}}
    ]
    assert made(delta(0, text=5)) == [{"text": {"start": None, "deltas": [5]}}]
    assert made(delta(0, text=None)) == []


def test_blocks_take_turns_and_stand_in_the_order_of_their_indices() -> None:
    use = {"toolUseId": "i", "name": "f"}
    assert made(
        start(2, toolUse=use), delta(0, text="a"), delta(2, toolUse={"input": "{"}), delta(0, text="b"), stop(0),
        delta(2, toolUse={"input": "}"}), delta(1, text="c"),
    ) == [{"text": "ab"}, {"text": "c"}, {"toolUse": {**use, "input": "{}"}}]  # fmt: skip


def test_a_start_or_a_stop_makes_the_next_of_an_index_another_block() -> None:
    first, second = {"toolUseId": "i", "name": "f"}, {"toolUseId": "j", "name": "f"}
    assert made(
        start(0, toolUse=first), delta(0, toolUse={"input": "1"}), start(0, toolUse=second), delta(0, toolUse={"input": "2"}),
        stop(0), delta(0, text="a"),
    ) == [{"toolUse": {**first, "input": "1"}}, {"toolUse": {**second, "input": "2"}}, {"text": "a"}]  # fmt: skip


def test_text_after_a_stop_is_another_block() -> None:
    assert made(delta(0, text="a"), stop(0), delta(0, text="b")) == [{"text": "a"}, {"text": "b"}]


def test_without_an_index_a_delta_continues_the_last_block() -> None:
    use = {"toolUseId": "i", "name": "f"}
    events = [start(None, toolUse=use), delta(None, toolUse={"input": "{"}), delta(None, toolUse={"input": "}"})]
    assert made(delta(None, text="a"), delta(None, text="b"), *events) == [
        {"text": "ab"}, {"toolUse": {**use, "input": "{}"}}
    ]  # fmt: skip


@pytest.mark.parametrize("event", [("add", {"delta": 5}), ("add", {"delta": ["a"]}), ("start", {"start": "a"})])
def test_a_block_that_is_no_object_is_unparseable(event: Event) -> None:
    with pytest.raises(Unparseable, match="no object"):
        made(event)


def split(text: str, cuts: Iterable[int]) -> list[str]:
    ends = sorted({cut % (len(text) + 1) for cut in cuts})
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


@given(st.text(max_size=12), st.dictionaries(st.text(max_size=3), st.integers(), max_size=3), st.text(max_size=8),
       st.lists(st.integers(0, 40), max_size=6), st.randoms(use_true_random=False))  # fmt: skip
def test_split_and_interleaved_anyhow_the_blocks_are_the_same(
    text: str, arguments: dict[str, int], thinking: str, cuts: list[int], random: Any
) -> None:
    raw, use = json.dumps(arguments), {"toolUseId": "i", "name": "f"}
    lanes = [
        [delta(0, **thought(text=piece)) for piece in split(thinking, cuts)] + [stop(0)],
        [delta(1, text=piece) for piece in split(text, cuts)] + [stop(1)],
        [start(2, toolUse=use), *(delta(2, toolUse={"input": piece}) for piece in split(raw, cuts)), stop(2)],
    ]
    events: list[Event] = []
    while any(lanes):
        events.append(random.choice([lane for lane in lanes if lane]).pop(0))
    said = [{"text": text}] if text else []
    assert made(*events) == [thought(reasoningText={"text": thinking}), *said, {"toolUse": {**use, "input": raw}}]
