"""Which conversations are the same one, however their clients write them down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange import canonical
from stepwell.exchange._canonical import is_part
from stepwell.exchange.canonical import canonical_message, canonical_messages, following_key, prefix_keys, text_of

Chat = dict[str, Any]


def keys(*messages: Chat) -> list[bytes]:
    return prefix_keys(canonical_messages(messages))


def call(arguments: str = '{"a": 1, "b": [2, "ü"]}', name: str = "f", id: str = "c1", **more: Any) -> Chat:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}], **more}


def user(content: Any, **more: Any) -> Chat:
    return {"role": "user", "content": content, **more}


def image(url: str, **more: Any) -> Chat:
    return {"type": "image_url", "image_url": {"url": url}, **more}


TEXT = {"type": "text", "text": "hi"}
MARK = {"cache_control": {"type": "ephemeral"}}
SAME: dict[str, tuple[Chat, Chat]] = {
    "a text and one part": (user("hi"), user([TEXT])),
    "a text in two parts": (user("hi"), user([{"type": "text", "text": "h"}, {"type": "text", "text": "i"}])),
    "an empty part": (user("hi"), user([TEXT, {"type": "text", "text": ""}])),
    "a cache mark on a text": (user("hi"), user([{**TEXT, **MARK}])),
    "a cache mark on an image": (user([image("u")]), user([image("u", **MARK)])),
    "system and developer": ({"role": "system", "content": "x"}, {"role": "developer", "content": "x"}),
    "reasoning dropped": (call(reasoning_content="hm"), call()),
    "reasoning under another name": (call(reasoning_content="hm"), call(reasoning="hm")),
    "reasoning between texts": (
        {"role": "assistant", "content": [TEXT, {"type": "reasoning", "text": "hm"}, TEXT]},
        {"role": "assistant", "content": "hihi"},
    ),
    "extras": ({**call(), "annotations": [{"url": "x"}], "audio": None, "name": "bot"}, call()),
    "another call id": (call(id="c1"), call(id="c2")),
    "arguments written anew": (call('{"a": 1, "b": [2, "ü"]}'), call('{"b":[2,"\\u00fc"],"a":1}')),
    "numbers written anew": (call('{"a": 1.0, "b": 1e2}'), call('{"a": 1, "b": 100}')),
    "arguments as an object": (call(), call({"a": 1, "b": [2, "ü"]})),  # type: ignore[arg-type]
    "no content and an empty one": (call(content=None), call(content="")),
    "a refusal said as text": ({"role": "assistant", "refusal": "no"}, {"role": "assistant", "content": "no"}),
    "a legacy call": (
        call(),
        {"role": "assistant", "function_call": {"name": "f", "arguments": '{"a":1,"b":[2,"ü"]}'}},
    ),
    "a result and its one part": (
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "42"}]},
    ),
    "a result in two parts": (
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}],
        },
    ),
    "an empty result": (
        {"role": "tool", "tool_call_id": "c1", "content": ""},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": ""}]},
    ),
    "a legacy result": (
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "function", "name": "f", "content": "42"},
    ),
}
DIFFERENT: dict[str, tuple[Chat, Chat]] = {
    "text": (user("hi"), user("hi ")),
    "role": (user("hi"), {"role": "assistant", "content": "hi"}),
    "image": (user([image("u")]), user([image("v")])),
    "image detail": (user([image("u")]), user([{"type": "image_url", "image_url": {"url": "u", "detail": "low"}}])),
    "name of the call": (call(), call(name="g")),
    "arguments": (call('{"a": 1}'), call('{"a": 2}')),
    "kind of argument": (call('{"a": 1}'), call('{"a": "1"}')),
    "a truth and a number": (call('{"a": true}'), call('{"a": 1}')),
    "order inside arguments": (call('{"a": [1, 2]}'), call('{"a": [2, 1]}')),
    "arguments cut": (call('{"a": 1'), call('{"a": 1}')),
    "two calls and one": (call(), {**call(), "tool_calls": call()["tool_calls"] * 2}),
    "text beside the call": (call(), call(content="let me see")),
    "result": (
        {"role": "tool", "tool_call_id": "c", "content": "1"},
        {"role": "tool", "tool_call_id": "c", "content": "2"},
    ),
    "text and a call of that text": (user("hi"), call("hi")),
    "order of parts": (user([TEXT, image("u")]), user([image("u"), TEXT])),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_conversation_has_the_same_key(name: str) -> None:
    one, other = SAME[name]
    assert keys(user("first"), one) == keys(user("first"), other)


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_conversation_has_another_key(name: str) -> None:
    one, other = DIFFERENT[name]
    assert keys(one) != keys(other)


def test_a_key_names_all_that_came_before() -> None:
    first, second, third = keys(user("a"), user("b"), user("c"))
    assert keys(user("a"), user("b")) == [first, second]
    assert keys(user("b"), user("a"))[1] != second  # order counts
    assert keys(user("a"), user("c"))[1] != second
    assert keys(user("ab"))[0] not in (first, second)
    assert {len(key) for key in (first, second, third)} == {16}


def test_the_key_that_follows_is_that_of_the_longer_conversation() -> None:
    messages = canonical_messages([user("a"), call(), user("b")])
    longer = prefix_keys(messages)
    for length in range(len(messages)):
        assert following_key(longer[:length], messages[length]) == longer[length]
    assert prefix_keys([]) == []


def test_arguments_nested_absurdly_are_compared_as_text() -> None:
    for depth in (200, 300, 900, 5000):
        nested = '{"a":' * depth + "1" + "}" * depth
        assert keys(call(nested)) == keys(call(nested))
        assert keys(call(nested)) != keys(call(nested.replace("1", "2")))


def test_the_text_of_a_message() -> None:
    message = canonical_message({**call(content=[TEXT, TEXT]), "reasoning": "hm", "refusal": "no"})
    assert text_of(message) == "hihi"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4))
def test_arguments_are_the_same_however_they_are_written(arguments: dict[str, Any]) -> None:
    turned = dict(reversed(arguments.items()))
    written = [
        json.dumps(arguments),
        json.dumps(turned, ensure_ascii=False),
        json.dumps(turned, indent=2, separators=(" ,", " : ")),
    ]
    assert len({keys(call(text))[0] for text in written}) == 1


@given(st.text())
def test_any_argument_text_has_a_key(text: str) -> None:
    assert keys(call(text)) == keys(call(text))


@pytest.mark.parametrize(
    ("part", "answer"),
    [
        (TEXT, True),
        ({"type": "text"}, False),
        ({"type": "refusal", "refusal": "no"}, False),
        ({"type": "refusal", "text": "no"}, True),
        ({"type": "reasoning", "text": "hm", "signature": "s"}, True),
        ({"type": "tool_call", "id": "c", "name": "f", "arguments": "{}"}, True),
        ({"type": "tool_call", "id": "c", "name": "f", "arguments": {}}, False),
        ({"type": "tool_result", "id": "c", "content": [TEXT]}, True),
        ({"type": "tool_result", "id": "c", "content": "42"}, False),
        ({"type": "tool_result", "content": [{"type": "tool_result", "content": []}]}, False),
        ({"type": "file", "extra": {"file": {}}}, True),
        ({"type": "file", "file": {}}, False),
        ({"type": "image_url"}, False),
        ({"type": []}, False),
        ({}, False),
        ("text", False),
    ],
)
def test_parts_are_known_by_what_their_type_promises(part: object, answer: bool) -> None:
    assert is_part(part) is answer


def test_the_public_names_are_all_there() -> None:
    assert sorted(canonical.__all__) == sorted(
        ["Message", "Part", "canonical_message", "canonical_messages", "following_key", "prefix_keys", "text_of"]
    )
