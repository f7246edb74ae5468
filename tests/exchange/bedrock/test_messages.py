"""Converse's messages as canonical ones, and back: every kind of block, and whatever else a client may send."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange._bedrock.messages import message_from, messages_from, parts_from
from stepwell.exchange._bedrock.rebuild import blocks_of, conversation_of, json_of, message_of
from stepwell.exchange._canonical import is_part, prefix_keys

DATA = base64.b64encode(b"picture").decode()
HASH = f"sha256:{hashlib.sha256(b'picture').hexdigest()}"
CITED = {"citations": [{"title": "t", "location": {"documentChar": {"documentIndex": 0, "start": 1, "end": 2}}}]}

BLOCKS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"text": "a"}, {"type": "text", "text": "a"}),
    ({"text": ""}, {"type": "text", "text": ""}),
    (
        {"image": {"format": "png", "source": {"bytes": DATA}}},
        {"type": "image", "hash": HASH, "extra": {"image": {"format": "png", "source": {"bytes": DATA}}}},
    ),
    (
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/k"}}}},
        {"type": "image", "extra": {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/k"}}}}},
    ),
    (
        {"document": {"name": "d", "format": "txt", "source": {"text": "t"}}},
        {"type": "file", "extra": {"document": {"name": "d", "format": "txt", "source": {"text": "t"}}}},
    ),
    (
        {"document": {"name": "d", "format": "pdf", "source": {"bytes": DATA}}},
        {
            "type": "file",
            "hash": HASH,
            "extra": {"document": {"name": "d", "format": "pdf", "source": {"bytes": DATA}}},
        },
    ),
    (
        {"video": {"format": "mp4", "source": {"bytes": DATA}}},
        {"type": "file", "hash": HASH, "extra": {"video": {"format": "mp4", "source": {"bytes": DATA}}}},
    ),
    (
        {"audio": {"format": "wav", "source": {"bytes": DATA}}},
        {"type": "audio", "hash": HASH, "extra": {"audio": {"format": "wav", "source": {"bytes": DATA}}}},
    ),
    (
        {"toolUse": {"toolUseId": "i", "name": "f", "input": {"z": 1, "a": [2.5]}}},
        {"type": "tool_call", "id": "i", "name": "f", "arguments": '{"z":1,"a":[2.5]}'},
    ),
    (
        {"toolUse": {"toolUseId": "i", "name": "f", "input": {}, "type": "tool_use"}},
        {
            "type": "tool_call",
            "id": "i",
            "name": "f",
            "arguments": "{}",
            "extra": {"toolUse": {"type": "tool_use"}},
        },
    ),
    (
        {"toolUse": {"toolUseId": "i", "name": "run", "input": {"a": 1}, "type": "server_tool_use"}},
        {
            "type": "tool_call",
            "id": "i",
            "name": "run",
            "arguments": '{"a":1}',
            "extra": {"toolUse": {"type": "server_tool_use"}},
        },
    ),
    (
        {"toolResult": {"toolUseId": "i", "content": [{"text": "ok"}, {"json": {"n": 1}}], "status": "error"}},
        {
            "type": "tool_result",
            "id": "i",
            "content": [
                {"type": "text", "text": "ok"},
                {"type": "text", "text": '{"n":1}', "extra": {"json": True}},
            ],
            "extra": {"toolResult": {"status": "error"}},
        },
    ),
    (
        {"toolResult": {"toolUseId": "i", "content": [{"image": {"format": "png", "source": {"bytes": DATA}}}]}},
        {
            "type": "tool_result",
            "id": "i",
            "content": [
                {"type": "image", "hash": HASH, "extra": {"image": {"format": "png", "source": {"bytes": DATA}}}}
            ],
        },
    ),
    (
        {"toolResult": {"toolUseId": "i", "content": [{"json": "text"}, {"json": None}]}},
        {
            "type": "tool_result",
            "id": "i",
            "content": [
                {"type": "text", "text": '"text"', "extra": {"json": True}},
                {"type": "text", "text": "null", "extra": {"json": True}},
            ],
        },
    ),
    (
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"type": "reasoning", "text": "hm", "signature": "s"},
    ),
    ({"reasoningContent": {"reasoningText": {"text": "hm"}}}, {"type": "reasoning", "text": "hm"}),
    ({"reasoningContent": {"redactedContent": DATA}}, {"type": "reasoning", "text": "", "redacted": DATA}),
    (
        {"guardContent": {"text": {"text": "q", "qualifiers": ["query"]}}},
        {"type": "text", "text": "q", "extra": {"guardContent": {"text": {"qualifiers": ["query"]}}}},
    ),
    (
        {"guardContent": {"text": {"text": "q"}}},
        {"type": "text", "text": "q", "extra": {"guardContent": {"text": {}}}},
    ),
    (
        {"guardContent": {"image": {"format": "png", "source": {"bytes": DATA}}}},
        {
            "type": "image",
            "hash": HASH,
            "extra": {"guardContent": {"image": {"format": "png", "source": {"bytes": DATA}}}},
        },
    ),
    (
        {"citationsContent": {"content": [{"text": "c"}], **CITED}},
        {"type": "text", "text": "c", "extra": {"citationsContent": CITED}},
    ),
    (
        {"citationsContent": {"content": [{"text": "c"}, {"text": "d"}], **CITED}},
        {
            "type": "text",
            "text": "cd",
            "extra": {"citationsContent": {"content": [{"text": "c"}, {"text": "d"}], **CITED}},
        },
    ),
    (
        {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}},
        {"type": "other", "extra": {"searchResult": {"source": "s", "title": "t", "content": [{"text": "x"}]}}},
    ),
    ({"cachePoint": {"type": "default"}}, {"type": "other", "extra": {"cachePoint": {"type": "default"}}}),
    ({"toolAddition": {"tool": {"name": "n"}}}, {"type": "other", "extra": {"toolAddition": {"tool": {"name": "n"}}}}),
    ({"fromTomorrow": 5}, {"type": "other", "extra": {"fromTomorrow": 5}}),
    ({"text": "a", "also": 1}, {"type": "text", "text": "a", "extra": {"also": 1}}),
    ({"text": 5}, {"type": "other", "extra": {"text": 5}}),
    ({"toolUse": {"input": {}}}, {"type": "other", "extra": {"toolUse": {"input": {}}}}),
    ({}, {"type": "other", "extra": {}}),
]


@pytest.mark.parametrize(("block", "part"), BLOCKS)
def test_every_block_is_a_part_and_back(block: dict[str, Any], part: dict[str, Any]) -> None:
    assert parts_from([block], "user") == [part]
    assert is_part(part)
    assert blocks_of([part]) == [block]


def test_the_order_of_blocks_stays() -> None:
    blocks = [block for block, _ in BLOCKS if "cachePoint" not in block]
    parts = parts_from(blocks, "user")
    assert parts == [part for block, part in BLOCKS if "cachePoint" not in block]
    assert blocks_of(parts) == blocks


def test_what_the_provider_ran_itself_answered_is_a_server_tool_with_its_name() -> None:
    use = {"toolUse": {"toolUseId": "i", "name": "run", "input": {}, "type": "server_tool_use"}}
    result = {"toolResult": {"toolUseId": "i", "content": [{"json": {}}], "type": "run_result"}}
    stranger = {"toolResult": {"toolUseId": "other", "content": [], "type": "run_result"}}
    nameless = {"toolResult": {"toolUseId": "other", "content": []}}
    blocks = [use, result, stranger, nameless]
    parts = parts_from(blocks, "assistant")
    assert [(part["type"], part["name"]) for part in parts] == [
        ("tool_call", "run"), ("server_tool", "run"), ("server_tool", "run_result"), ("server_tool", ""),
    ]  # fmt: skip
    assert [part["extra"] for part in parts[1:]] == blocks[1:]
    assert blocks_of(parts) == blocks


def test_a_cache_point_is_a_mark_on_what_stands_before_it() -> None:
    point = {"cachePoint": {"type": "default", "ttl": "5m"}}
    picture = {"image": {"format": "png", "source": {"bytes": DATA}}}
    blocks = [point, {"text": "a"}, point, point, picture, point]
    parts = parts_from(blocks, "user")
    assert [part["type"] for part in parts] == ["other", "text", "other", "image"]
    assert parts[1]["extra"] == {"cache_control": point}
    assert blocks_of(parts) == blocks


def test_a_conversation_is_the_same_wherever_its_cache_points_have_moved() -> None:
    point = {"cachePoint": {"type": "default"}}
    result = {"toolResult": {"toolUseId": "i", "content": [{"text": "ok"}]}}
    for block in ({"text": "a"}, result, {"image": {"format": "png", "source": {"s3Location": {"uri": "u"}}}}):
        with_mark = messages_from([{"text": "s"}, point], [{"role": "user", "content": [block, point]}])
        without = messages_from([{"text": "s"}], [{"role": "user", "content": [block]}])
        assert prefix_keys(with_mark) == prefix_keys(without)


def test_the_system_prompt_comes_first() -> None:
    messages = [{"role": "user", "content": [{"text": "hi"}]}]
    assert messages_from([{"text": "a"}, {"guardContent": {"text": {"text": "b"}}}], messages) == [
        {
            "role": "system",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b", "extra": {"guardContent": {"text": {}}}},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    ]
    assert messages_from([], messages) == messages_from(None, messages)


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "system", "content": [{"text": "s"}]}, {"role": "user", "content": [{"text": "u"}]}]},
        {"system": [{"text": "s"}], "messages": [{"role": "system", "content": [{"text": "t"}]}]},
        {"messages": [{"role": "system", "content": [{"text": "s"}], "other": 1}]},
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"text": "u"}], "id": "x"}]},
    ],
)
def test_where_a_system_message_stood_is_known(body: dict[str, Any]) -> None:
    assert conversation_of(messages_from(body.get("system"), body["messages"])) == body


def test_content_may_be_a_text_or_nothing() -> None:
    assert message_from({"role": "user", "content": "a"})["content"] == [{"type": "text", "text": "a"}]
    assert message_from({"role": "assistant", "content": None})["content"] == []


@pytest.mark.parametrize(
    "message", [None, 5, "text", {}, {"role": 5}, {"role": "user", "content": 5}, {"role": "user", "content": ["a"]}]
)
def test_a_message_that_is_none_is_a_value_error(message: Any) -> None:
    with pytest.raises(ValueError, match="message"):
        messages_from(None, [message])
    with pytest.raises(ValueError, match="messages is a list"):
        messages_from(None, message)


def test_arguments_that_are_no_json_stay_text() -> None:
    assert json_of('{"a": ') == '{"a": '
    assert json_of("") == {}
    use = {"toolUse": {"toolUseId": "i", "name": "f", "input": '{"a": '}}
    assert blocks_of(parts_from([use], "assistant")) == [use]


words = st.text(max_size=5)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(words, anything, max_size=3)
sources = st.fixed_dictionaries({"format": words, "source": st.fixed_dictionaries({"bytes": words | st.just(DATA)})})
leaves = st.one_of(
    st.fixed_dictionaries({"text": words}),
    st.fixed_dictionaries({"json": anything}),
    st.fixed_dictionaries({"image": sources}),
    st.fixed_dictionaries({"document": sources}),
)
blocks_made = st.one_of(
    leaves,
    st.fixed_dictionaries({"toolUse": st.fixed_dictionaries({"toolUseId": words, "name": words, "input": objects})}),
    st.fixed_dictionaries(
        {"toolResult": st.fixed_dictionaries({"toolUseId": words, "content": st.lists(leaves, max_size=2)})}
    ),
    st.fixed_dictionaries({"reasoningContent": st.fixed_dictionaries({"redactedContent": words})}),
    st.fixed_dictionaries(
        {"reasoningContent": st.fixed_dictionaries({"reasoningText": st.fixed_dictionaries({"text": words})})}
    ),
    st.fixed_dictionaries({"guardContent": st.fixed_dictionaries({"text": st.fixed_dictionaries({"text": words})})}),
    st.just({"cachePoint": {"type": "default"}}),
    st.just({"citationsContent": {"content": [{"text": "c"}], "citations": []}}),
    objects,
)
messages_made = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]), "content": st.lists(blocks_made, max_size=4)}
)


@settings(max_examples=150)
@given(st.lists(messages_made, max_size=3), st.lists(blocks_made, min_size=1, max_size=2) | st.none())
def test_any_conversation_comes_back(messages: list[dict[str, Any]], system: list[dict[str, Any]] | None) -> None:
    canonical = messages_from(system, messages)
    assert all(is_part(part) for message in canonical for part in message["content"])
    body = {"messages": messages} | ({"system": system} if system else {})
    assert conversation_of(canonical) == body


KEYS = ["text", "image", "toolUse", "toolResult", "reasoningContent", "guardContent", "citationsContent", "cachePoint",
        "document", "content", "citations", "reasoningText", "redactedContent", "signature", "name", "input", "toolUseId",
        "type", "json", "source", "bytes", "extra", "cache_control"]  # fmt: skip
shaped = st.recursive(
    anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=150)
@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), shaped, max_size=3), max_size=3),
    st.sampled_from(["user", "assistant"]),
)
def test_no_block_makes_it_fail(blocks: list[Any], role: str) -> None:
    message = message_from({"role": role, "content": blocks})
    assert all(is_part(part) for part in message["content"])
    message_of(message)
