"""Which conversations are the same one, however their clients write them down."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import canonical
from stepwell.exchange._canonical import is_part
from stepwell.exchange.canonical import (
    canonical_message,
    canonical_messages,
    chained_keys,
    compared,
    following_key,
    prefix_keys,
    text_of,
)

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


def server_tool(**extra: Any) -> Chat:
    return {"type": "server_tool", "name": "web_search", "extra": extra}


TEXT = {"type": "text", "text": "hi"}
BILLING = "x-anthropic-billing-header:"
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
    "a thought in the text": (
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\n42"},
        {"role": "assistant", "content": "42"},
    ),
    "a thought whose beginning the template wrote": (
        {"role": "assistant", "content": "hm,\nso\n</think>\n\n42"},
        {"role": "assistant", "content": "42"},
    ),
    "a thought in the text and one aside": (
        {"role": "assistant", "content": "<think>hm</think>42"},
        {"role": "assistant", "content": "42", "reasoning_content": "hm"},
    ),
    "Claude Code's count of requests": (
        {"role": "system", "content": [{"type": "text", "text": f"{BILLING} cch=1f; cc_prev_req=a1;"}, TEXT]},
        {"role": "system", "content": [{"type": "text", "text": f"{BILLING} cch=2e; cc_is_subagent=true;"}, TEXT]},
    ),
    "the same in one text": (
        {"role": "system", "content": f"{BILLING} cc_version=2.1; cch=1f;\nhi"},
        {"role": "system", "content": f"{BILLING} cc_version=2.1; cch=2e\nhi"},
    ),
    "a result in gemini-cli's wrapper": (
        {"role": "tool", "content": '{"output":"<untrusted_context>\\n4\\n2\\n</untrusted_context>"}'},
        {"role": "tool", "content": '{"output":"4\\n2"}'},
    ),
    "the same as plain text": (
        {"role": "tool", "content": "<untrusted_context>\n42\n</untrusted_context>"},
        {"role": "tool", "content": "42"},
    ),
    "an image of the same bytes": (
        user([image("data:image/png;base64,aGk=")]),
        user([image("data:image/png;base64,aGk=", **MARK)]),
    ),
    "the bytes of an image in another alphabet": (
        user([image("data:image/png;base64,--__")]),
        user([image("data:image/png;base64,++//")]),
    ),
    "a server's tool, its mark moved": (
        {"role": "assistant", "content": [server_tool(id="s1")]},
        {"role": "assistant", "content": [server_tool(id="s1", status="completed", **MARK)]},
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
    "images of other bytes": (user([image("data:image/png;base64,aGk=")]), user([image("data:image/png;base64,aGo=")])),
    "an image's bytes and another kind's": (
        user([{"type": "image", "hash": "sha256:1"}]),
        user([{"type": "audio", "hash": "sha256:1"}]),
    ),
    "what follows the thought": (
        {"role": "assistant", "content": "<think>hm</think>42"},
        {"role": "assistant", "content": "<think>hm</think>43"},
    ),
    "a thought that is spoken of": (
        {"role": "assistant", "content": "a </think> b"},
        {"role": "assistant", "content": "c </think> b"},
    ),
    "a thought in what a user says": (user("<think>hm</think>42"), user("42")),
    "a count of requests in what a user says": (user(f"{BILLING} cch=1;"), user(f"{BILLING} cch=2;")),
    "what follows the count of requests": (
        {"role": "system", "content": f"{BILLING} cch=1;You are A"},
        {"role": "system", "content": f"{BILLING} cch=1;You are B"},
    ),
    "a wrapper in what a user says": (user("<untrusted_context>\n42\n</untrusted_context>"), user("42")),
    "what is in the wrapper": (
        {"role": "tool", "content": "<untrusted_context>\n42\n</untrusted_context>"},
        {"role": "tool", "content": "<untrusted_context>\n43\n</untrusted_context>"},
    ),
    "another call of a server's tool": (
        {"role": "assistant", "content": [server_tool(id="s1")]},
        {"role": "assistant", "content": [server_tool(id="s2")]},
    ),
    "a server's tool and its result": (
        {"role": "assistant", "content": [server_tool(id="s1", type="web_search_call")]},
        {"role": "assistant", "content": [server_tool(tool_use_id="s1", type="web_search_result")]},
    ),
    "a server's tool without an id": (
        {"role": "assistant", "content": [server_tool(code="1")]},
        {"role": "assistant", "content": [server_tool(code="2")]},
    ),
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


parts = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text(max_size=8)),
    st.builds(lambda digest: {"type": "image", "hash": digest}, st.sampled_from("ab")),
    st.builds(lambda id_: server_tool(id=id_), st.sampled_from("ab")),
    st.builds(
        lambda text: {"type": "tool_call", "id": "c", "name": "f", "arguments": text}, st.sampled_from(["{}", "1"])
    ),
)
talks = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant", "system"]),
        st.lists(parts, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def plainly(message: Chat) -> Any:
    """What a message says, neighbouring texts as one."""
    said: list[Any] = []
    for part in message["content"]:
        if part["type"] == "text" and said and isinstance(said[-1], str):
            said[-1] += part["text"]
        else:
            said.append(part["text"] if part["type"] == "text" else sorted(part.items(), key=str))
    return [message["role"], [value for value in said if value != ""]]


@settings(max_examples=200, deadline=None)
@given(talks, talks)
def test_keys_are_equal_when_the_same_was_said_and_only_then(one: list[Chat], other: list[Chat]) -> None:
    same = list(map(plainly, one)) == list(map(plainly, other))
    assert (prefix_keys(one)[-1] == prefix_keys(other)[-1]) is same


@settings(max_examples=100, deadline=None)
@given(talks, st.text(st.characters(exclude_characters=";\n", codec="utf-8"), max_size=9))
def test_what_clients_add_between_turns_changes_no_key(talk: list[Chat], count: str) -> None:
    def marked(message: Chat) -> Chat:
        content = [{**part, "extra": {**part.get("extra", {}), **MARK}} for part in message["content"]]
        if message["role"] == "system":
            content.insert(0, {"type": "text", "text": f"{BILLING} cch={count}; cc_prev_req={count};"})
        if message["role"] == "assistant":
            content.insert(0, {"type": "reasoning", "text": count, "signature": "s"})
        return {**message, "content": content, "extra": {"id": count}}

    assert prefix_keys(map(marked, talk)) == prefix_keys(talk)


def test_any_text_of_an_answer_is_compared_without_going_over_it_again_and_again() -> None:
    """Patterns that fail late: in time that grows with the square of the length these would take hours."""
    for text in ("<think>" * 50_000, "\n</think>" * 50_000, "a\n" * 200_000 + "</think>", " " * 300_000 + "</think>"):
        assert len(keys({"role": "assistant", "content": text})) == 1


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


def test_keys_can_be_continued_from_forms() -> None:
    messages = canonical_messages([user("a"), call(), user("b")])
    forms = [compared(message) for message in messages]
    whole = prefix_keys(messages)
    assert chained_keys(b"", forms) == whole
    assert chained_keys(whole[0], forms[1:]) == whole[1:]
    assert chained_keys(b"elsewhere", forms)[-1] != whole[-1]


def test_the_public_names_are_all_there() -> None:
    assert sorted(canonical.__all__) == sorted(
        [
            *("Message", "Part", "canonical_message", "canonical_messages"),
            *("chained_keys", "compared", "following_key", "prefix_keys", "text_of", "written"),
        ]
    )
