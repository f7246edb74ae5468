"""Canonical messages and tools of every dialect, as templates take them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reader.realise.conftest import said

from stepwell.reader._realise.messages import answer_message, chat_messages
from stepwell.reader._realise.needs import Refused
from stepwell.reader._realise.tools import chat_tools

CALL = {"type": "tool_call", "id": "c1", "name": "look", "arguments": '{"at": "x"}'}
PLAIN_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "x"}}}
THOUGHT = {"type": "reasoning", "text": "hm"}
IMAGE = {"type": "image", "hash": "sha256:1", "extra": {"image_url": {}}}


def result(*parts: Any) -> dict[str, Any]:
    return {"type": "tool_result", "id": "c1", "content": list(said("tool", *parts)["content"])}


def test_texts_reasoning_and_calls() -> None:
    messages = [said("system", "s"), said("user", "a", "b"), said("assistant", THOUGHT, "c", CALL), said("user")]
    assert chat_messages(messages) == (
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "ab"},
            {"role": "assistant", "content": "c", "reasoning_content": "hm", "tool_calls": [PLAIN_CALL]},
            {"role": "user", "content": ""},
        ],
        [],
    )


def test_tool_results_become_messages_of_their_own_where_they_stood() -> None:
    messages, _ = chat_messages([said("user", "before", result("r1"), result("r2"), "after")])
    assert [(one["role"], one["content"]) for one in messages] == [
        *(("user", "before"), ("tool", "r1"), ("tool", "r2")),
        ("user", "after"),
    ]
    assert messages[1]["tool_call_id"] == "c1"


def test_media_keep_their_places_and_tell_their_hashes() -> None:
    second = {**IMAGE, "hash": "sha256:2"}
    messages, hashes = chat_messages([said("user", "a", IMAGE, "b"), said("tool", result(second))], ["image"])
    text = {"type": "text"}
    assert messages[0]["content"] == [{**text, "text": "a"}, {"type": "image"}, {**text, "text": "b"}]
    assert messages[1]["content"] == [{"type": "image"}]
    assert hashes == ["sha256:1", "sha256:2"]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ({"type": "audio", "hash": "sha256:1"}, "kind audio, for which there is no placeholder"),
        ({"type": "image"}, "kind image without a content hash"),
        ({"type": "server_tool", "name": "search"}, "a part of the type server_tool"),
        ({"type": "other"}, "a part of the type other"),
        ({**CALL, "arguments": "{"}, "no JSON object"),
        ({**CALL, "arguments": "[1]"}, "no JSON object"),
        ({**THOUGHT, "redacted": True}, "reasoning that the provider withheld"),
        ({**THOUGHT, "text": ""}, "reasoning that the provider withheld"),
    ],
)
def test_what_no_template_takes_is_refused(part: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused, match=why):
        chat_messages([said("assistant", "a", part)], ["image"])


def test_an_answer_is_one_message_of_the_assistant_and_says_something() -> None:
    assert answer_message(said("assistant", CALL))["tool_calls"] == [PLAIN_CALL]
    for answer, why in [
        (said("user", "a"), "not one message"),
        (said("assistant", "a", result("r")), "not one message"),
        (said("assistant"), "is empty"),
        (said("assistant", IMAGE), "no placeholder"),
    ]:
        with pytest.raises(Refused, match=why):
            answer_message(answer)


def test_tools_of_each_dialect_are_the_same() -> None:
    schema = {"type": "object"}
    told = {"name": "look", "description": "d", "parameters": schema}
    expected = [{"type": "function", "function": told}]
    assert chat_tools(expected) == expected
    assert chat_tools([{"type": "function", **told, "strict": True}]) == expected
    assert chat_tools([{"name": "look", "description": "d", "input_schema": schema}]) == expected
    assert chat_tools([{"functionDeclarations": [told]}]) == expected
    assert chat_tools(None) is None and chat_tools([]) is None


@pytest.mark.parametrize(
    "tool", [{"type": "web_search"}, {"type": "function", "function": {}}, {"googleSearch": {}}, "x", {"name": "x"}]
)
def test_tools_that_are_no_functions_are_refused(tool: Any) -> None:
    with pytest.raises(Refused, match="a tool"):
        chat_tools([tool])
