"""Ollama's messages in canonical form, and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._canonical import is_part
from stepwell.exchange._ollama.messages import canonical_message, ollama_message

HASH = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


def test_every_field_is_a_part() -> None:
    message = {
        "role": "assistant", "content": "so", "thinking": "hm", "images": ["eA=="],
        "tool_calls": [{"function": {"name": "f", "arguments": {"z": 1, "a": "ü"}}}], "x": 1, "y": None,
    }  # fmt: skip
    canonical = canonical_message(message)
    assert canonical == {
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm", "extra": {"name": "thinking"}},
            {"type": "image", "hash": HASH, "extra": {"data": "eA=="}},
            {"type": "text", "text": "so"},
            {"type": "tool_call", "id": None, "name": "f", "arguments": '{"z":1,"a":"ü"}'},
        ],
        "extra": {"x": 1},
    }
    del message["y"]
    assert ollama_message(canonical) == message


@pytest.mark.parametrize(
    ("names", "id_"),
    [({}, None), ({"tool_name": "f"}, "f"), ({"name": "f"}, "f"), ({"tool_name": "f", "tool_call_id": "c"}, "c")],
)
def test_a_result_goes_by_what_the_message_names(names: dict[str, str], id_: str | None) -> None:
    message = {"role": "tool", "content": "42", **names}
    canonical = canonical_message(message)
    assert canonical["content"] == [{"type": "tool_result", "id": id_, "content": [{"type": "text", "text": "42"}]}]
    assert ollama_message(canonical) == message


def test_arguments_that_are_a_text_already() -> None:
    canonical = canonical_message(
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{bad"}}]}
    )
    assert canonical["content"][0]["arguments"] == "{bad"
    assert ollama_message(canonical)["tool_calls"] == [{"function": {"name": "f", "arguments": "{bad"}}]


@pytest.mark.parametrize(
    "message",
    [
        *({}, {"role": 5}, None, "hi", {"role": "user", "content": 5}, {"role": "user", "content": []}),
        *({"role": "user", "thinking": {}}, {"role": "user", "images": 5}, {"role": "assistant", "tool_calls": 5}),
        *({"role": "assistant", "tool_calls": [5]}, {"role": "assistant", "tool_calls": [{"function": 5}]}),
    ],
)
def test_what_is_no_message_is_a_value_error(message: Any) -> None:
    with pytest.raises(ValueError):
        canonical_message(message)


word = st.text(min_size=1, max_size=5)
arguments = st.dictionaries(word, st.integers(0, 9) | word | st.lists(st.booleans(), max_size=2), max_size=3)
call = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": word, "arguments": arguments}, optional={"index": st.integers(0, 3)})},
    optional={"id": word},
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": word},
    optional={
        "thinking": word,
        "images": st.lists(word, min_size=1, max_size=2),
        "tool_calls": st.lists(call, min_size=1, max_size=2),
        "tool_name": word,
    },
)


@given(messages)
def test_every_message_comes_back(message: dict[str, Any]) -> None:
    canonical = canonical_message(message)
    assert all(is_part(part) for part in canonical["content"])
    assert ollama_message(canonical) == message
