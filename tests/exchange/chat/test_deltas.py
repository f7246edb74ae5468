"""A message from the deltas of a stream, in any order and any number of pieces."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._chat.deltas import MessageDeltas

Delta = dict[str, Any]


def joined(*deltas: Delta) -> Delta:
    message = MessageDeltas()
    for delta in deltas:
        message.add(delta)
    return message.message()


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


def test_many_pieces_are_joined_in_one_pass() -> None:
    """300 000 deltas of 100 characters: adding strings up would copy 4 TB."""
    message = MessageDeltas()
    piece = "x" * 100
    for _ in range(150_000):
        message.add({"content": piece})
        message.add({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": piece}}]})
    whole = message.message()
    assert len(whole["content"]) == len(whole["tool_calls"][0]["function"]["arguments"]) == 15_000_000
