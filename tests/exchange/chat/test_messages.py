"""OpenAI chat messages in canonical form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._canonical import is_part, prefix_keys
from stepwell.exchange._chat.messages import canonical_message, canonical_messages


def test_a_text() -> None:
    assert canonical_message({"role": "user", "content": "hi"}) == {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
    }
    assert canonical_message({"role": "assistant", "content": None}) == {"role": "assistant", "content": []}


def test_parts_of_every_kind_keep_what_they_carry() -> None:
    message = canonical_message(
        {
            "role": "user",
            "content": [
                "plain",
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:x"}},
                {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}},
                {"type": "file", "file": {"file_id": "f"}},
                {"type": "refusal", "refusal": "no"},
                {"type": "thinking", "thinking": [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]},
                {"type": "thinking", "thinking": [{"type": "reference", "ids": [1]}]},
                {"type": "video_url", "video_url": {"url": "v"}},
                {"type": "text", "text": 5},
            ],
        }
    )
    assert message["content"] == [
        {"type": "text", "text": "plain"},
        {"type": "text", "text": "a", "extra": {"cache_control": {"type": "ephemeral"}}},
        {"type": "image", "extra": {"image_url": {"url": "data:x"}}},
        {
            "type": "audio",
            "hash": "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
            "extra": {"input_audio": {"data": "eA==", "format": "wav"}},
        },
        {"type": "file", "extra": {"file": {"file_id": "f"}}},
        {"type": "refusal", "text": "no"},
        {"type": "reasoning", "text": "hm"},
        {"type": "other", "extra": {"type": "thinking", "thinking": [{"type": "reference", "ids": [1]}]}},
        {"type": "other", "extra": {"type": "video_url", "video_url": {"url": "v"}}},
        {"type": "other", "extra": {"type": "text", "text": 5}},
    ]


def test_an_answer_in_the_order_in_which_it_is_said() -> None:
    message = canonical_message(
        {
            "role": "assistant",
            "content": "so",
            "reasoning_content": "hm",
            "reasoning": "hm",
            "refusal": "no",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1'}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free text"}},
                {"id": "c3", "function": {"name": "h", "arguments": {"b": [1]}}},
            ],
            "annotations": [1],
            "audio": None,
        }
    )
    assert message == {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm", "extra": {"name": "reasoning_content", "also": ["reasoning"]}},
            {"type": "text", "text": "so"},
            {"type": "refusal", "text": "no"},
            {"type": "tool_call", "id": "c1", "name": "f", "arguments": '{"a": 1'},  # cut: the text stays as it is
            {"type": "tool_call", "id": "c2", "name": "g", "arguments": "free text", "extra": {"type": "custom"}},
            {"type": "tool_call", "id": "c3", "name": "h", "arguments": '{"b":[1]}'},
        ],
        "extra": {"annotations": [1]},
    }


def test_two_different_thoughts_are_both_kept() -> None:
    message = canonical_message({"role": "assistant", "reasoning_content": "a", "reasoning": "b"})
    assert message["content"] == [
        {"type": "reasoning", "text": "a", "extra": {"name": "reasoning_content"}},
        {"type": "reasoning", "text": "b", "extra": {"name": "reasoning"}},
    ]


def test_what_a_call_carries_beside_its_function_is_kept() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    message = canonical_message(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "a", "type": "function", "extra_content": signed, "function": {"name": "f", "strict": True}},
                {"id": "b", "type": "builtin_function", "function": {"name": "$web_search", "arguments": "{}"}},
                {"id": "c", "custom": {"name": "g", "input": "x"}},
            ],
            "function_call": {"name": "h", "arguments": "{}"},
        }
    )
    assert [part.get("extra") for part in message["content"]] == [
        {"extra_content": signed, "function": {"strict": True}},
        {"type": "builtin_function"},
        {"type": "custom"},
        {"field": "function_call"},
    ]


def test_fields_of_a_type_the_api_does_not_know_are_kept_as_they_are() -> None:
    fields = {"reasoning": {"effort": 1}, "refusal": ["no"], "tool_call_id": "c", "name": "n", "audio": {"id": "a"}}
    assert canonical_message({"role": "user", "content": "", **fields}) == {
        "role": "user",
        "content": [],
        "extra": fields,
    }


def test_reasoning_details_alone_are_reasoning() -> None:
    details = [{"type": "reasoning.summary", "summary": "a"}, {"type": "reasoning.text", "text": "b"}, {"data": "=="}]
    message = canonical_message({"role": "assistant", "reasoning_details": details})
    assert message["content"] == [{"type": "reasoning", "text": "ab", "extra": {"name": "reasoning_details"}}]
    assert message["extra"] == {"reasoning_details": details}
    both = canonical_message({"role": "assistant", "reasoning": "ab", "reasoning_details": details})
    assert [part["text"] for part in both["content"]] == ["ab"]


def test_results_of_tools_and_of_functions() -> None:
    tool = canonical_message({"role": "tool", "tool_call_id": "c1", "content": "42"})
    assert tool == {
        "role": "tool",
        "content": [{"type": "tool_result", "id": "c1", "content": [{"type": "text", "text": "42"}]}],
    }
    function = canonical_message({"role": "function", "name": "f", "content": "42"})
    assert function["role"] == "tool" and function["extra"] == {"role": "function", "name": "f"}
    assert function["content"][0]["id"] == "f" and function["content"][0]["extra"] == {"by": "name"}
    nameless = canonical_message({"role": "tool", "content": [{"type": "text", "text": "42"}]})
    assert nameless["content"][0]["type"] == "tool_result"


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": None, "content": "x"},
        {"role": 5},
        {"role": "user", "content": 5},
        {"role": "user", "content": {"type": "text"}},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [None]},
        {"role": "assistant", "tool_calls": 5},
        {"role": "assistant", "tool_calls": {"id": "c"}},
        {"role": "assistant", "tool_calls": ["c"]},
        {"role": "assistant", "tool_calls": [{"function": "f"}]},
        {"role": "assistant", "function_call": "f"},
        "hi",
        None,
        [],
    ],
)
def test_what_is_no_message_is_a_value_error(message: Any) -> None:
    with pytest.raises(ValueError):
        canonical_message(message)


def test_arguments_nested_too_deeply_are_a_value_error() -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    with pytest.raises(ValueError, match="arguments"):
        canonical_message({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": deep}}]})


words = st.text(max_size=5)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
types = st.sampled_from(
    [
        *("text", "refusal", "reasoning", "thinking", "tool_call", "tool_result", "image", "audio", "file", "other"),
        *("image_url", "input_audio", "unknown"),
    ]
)
part = (
    words
    | anything
    | st.fixed_dictionaries(
        {"type": types | anything},
        optional={
            "text": words | anything,
            "refusal": anything,
            "thinking": anything,
            "name": words,
            "arguments": words | anything,
            "id": words,
            "content": st.lists(st.fixed_dictionaries({"type": types, "text": words}), max_size=2) | anything,
            "extra": st.dictionaries(words, anything, max_size=2),
            "file": anything,
        },
    )
)
tool_call = anything | st.fixed_dictionaries(
    {},
    optional={
        "id": anything,
        "type": anything,
        "function": st.dictionaries(st.sampled_from(["name", "arguments"]), anything),
    },
)
chat_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "function", "system", "developer"]) | anything},
    optional={
        "content": words | st.lists(part, max_size=3) | anything,
        "refusal": anything,
        "reasoning": anything,
        "reasoning_content": anything,
        "reasoning_details": st.lists(part, max_size=2) | anything,
        "tool_calls": st.lists(tool_call, max_size=2) | anything,
        "function_call": anything,
        "tool_call_id": words,
        "name": words,
        "extra": anything,
    },
)


@given(chat_message)
def test_whatever_comes_is_canonical_or_a_value_error(message: dict[str, Any]) -> None:
    try:
        canonical = canonical_message(message)
    except ValueError:
        return
    assert isinstance(canonical["role"], str)
    assert all(is_part(item) for item in canonical["content"])
    assert canonical_message(canonical) == canonical
    assert len(prefix_keys([canonical])) == 1


def test_several() -> None:
    assert [m["role"] for m in canonical_messages([{"role": "user"}, {"role": "tool"}])] == ["user", "tool"]
