"""Parts that nobody read out of a Converse message, put into one all the same."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._bedrock.rebuild import blocks_of, message_of


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "refusal", "text": "no"}, {"text": "no"}),
        ({"type": "reasoning", "text": "hm", "extra": {"name": "reasoning"}},
         {"name": "reasoning", "reasoningContent": {"reasoningText": {"text": "hm"}}}),
        ({"type": "tool_call", "id": None, "name": "f", "arguments": ""},
         {"toolUse": {"toolUseId": None, "name": "f", "input": {}}}),
        ({"type": "tool_call", "id": "i", "name": "f", "arguments": "{cut"},
         {"toolUse": {"toolUseId": "i", "name": "f", "input": "{cut"}}),
        ({"type": "text", "text": "a", "extra": {"cache_control": {"type": "ephemeral"}}},
         {"text": "a", "cache_control": {"type": "ephemeral"}}),
        ({"type": "other"}, {}),
    ],
)  # fmt: skip
def test_a_part_of_another_origin_has_its_nearest_block(part: dict[str, Any], block: dict[str, Any]) -> None:
    assert blocks_of([part]) == [block]


def test_a_text_that_stands_beside_a_key_named_json_stays_text() -> None:
    inner = {"type": "text", "text": "no json", "extra": {"json": True}}
    (block,) = blocks_of([{"type": "tool_result", "id": "i", "content": [inner]}])
    assert block == {"toolResult": {"toolUseId": "i", "content": [{"text": "no json", "json": True}]}}


def test_a_cache_point_stands_behind_its_part() -> None:
    point = {"cachePoint": {"type": "default"}}
    part = {"type": "text", "text": "a", "extra": {"cache_control": point, "x": 1}}
    assert blocks_of([part]) == [{"text": "a", "x": 1}, point]
    assert part["extra"] == {"cache_control": point, "x": 1}  # the step's own part is left alone


def test_what_a_message_carries_comes_back() -> None:
    message = {"role": "user", "content": [], "extra": {"id": 1, "in_messages": True}}
    assert message_of(message) == {"role": "user", "content": [], "id": 1}
