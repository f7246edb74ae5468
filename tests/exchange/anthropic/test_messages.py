"""Content blocks as parts, and a Messages request as what was asked."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._anthropic.messages import IN_LIST, IN_PATH, asked_from, message_from, part_from
from stepwell.exchange._canonical import is_part

MARK = {"type": "ephemeral"}
PIXEL = base64.b64encode(b"pixel").decode()


def digest(raw: bytes) -> str:
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ("plain", {"type": "text", "text": "plain"}),
        ({"type": "text", "text": "a"}, {"type": "text", "text": "a"}),
        ({"type": "text", "text": ""}, {"type": "text", "text": ""}),
        ({"type": "text", "text": None, "citations": None}, {"type": "text", "text": ""}),
        (
            {"type": "text", "text": "a", "citations": [{"cited_text": "b"}], "cache_control": MARK},
            {"type": "text", "text": "a", "extra": {"citations": [{"cited_text": "b"}], "cache_control": MARK}},
        ),
        (
            {"type": "thinking", "thinking": "hm", "signature": "s=="},
            {"type": "reasoning", "text": "hm", "signature": "s=="},
        ),
        ({"type": "thinking", "thinking": ""}, {"type": "reasoning", "text": ""}),
        ({"type": "redacted_thinking", "data": "opaque"}, {"type": "reasoning", "text": "", "redacted": "opaque"}),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1, "a": [1.5, "é"]}},
            {"type": "tool_call", "id": "t", "name": "f", "arguments": '{"b":1,"a":[1.5,"é"]}'},
        ),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}},
            {
                "type": "tool_call",
                "id": "t",
                "name": "f",
                "arguments": "{}",
                "extra": {"caller": {"type": "direct"}},
            },
        ),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": '{"cut'},
            {"type": "tool_call", "id": "t", "name": "f", "arguments": '{"cut'},
        ),
        ({"type": "tool_use", "name": "f"}, {"type": "tool_call", "id": None, "name": "f", "arguments": ""}),
        (
            {"type": "tool_use", "id": "t", "name": "f", "input": [1]},
            {"type": "tool_call", "id": "t", "name": "f", "arguments": "[1]", "extra": {"input": [1]}},
        ),
        (
            {"type": "tool_result", "tool_use_id": "t", "content": "ok", "is_error": False},
            {
                "type": "tool_result",
                "id": "t",
                "content": [{"type": "text", "text": "ok"}],
                "extra": {"is_error": False},
            },
        ),
        ({"type": "tool_result", "tool_use_id": "t"}, {"type": "tool_result", "id": "t", "content": []}),
        ({"type": "tool_result", "tool_use_id": "t", "content": ""}, {"type": "tool_result", "id": "t", "content": []}),
    ],
)
def test_blocks_that_have_a_part_of_their_own(block: Any, part: dict[str, Any]) -> None:
    assert part_from(block) == part
    assert is_part(part_from(block))


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}, "web_search"),
        ({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "u"}]}, "web_search"),
        ({"type": "web_fetch_tool_result", "tool_use_id": "s", "content": {"type": "error"}}, "web_fetch"),
        ({"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {}}, "bash_code_execution"),
        ({"type": "mcp_tool_use", "id": "m", "name": "ask", "server_name": "wiki", "input": {}}, "ask"),
        ({"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": []}, "mcp"),
        ({"type": "brand_new_tool_result", "tool_use_id": "n"}, "brand_new"),
    ],
)
def test_tools_that_the_provider_ran_are_kept_whole(block: dict[str, Any], name: str) -> None:
    part = part_from(block)
    assert part == {"type": "server_tool", "name": name, "extra": block}
    assert is_part(part)


@pytest.mark.parametrize(
    ("block", "kind", "raw"),
    [
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            "image",
            b"pixel",
        ),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, "image", None),
        ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "image", None),
        ({"type": "image"}, "image", None),
        ({"type": "document", "source": {"type": "base64", "data": PIXEL}, "title": "t"}, "file", b"pixel"),
        ({"type": "document", "source": {"type": "text", "data": "naïve"}}, "file", "naïve".encode()),
        ({"type": "document", "source": {"type": "content", "content": "x"}}, "file", None),
        ({"type": "container_upload", "file_id": "f"}, "file", None),
    ],
)
def test_media_are_named_by_the_hash_of_their_bytes(block: dict[str, Any], kind: str, raw: bytes | None) -> None:
    hashed = {} if raw is None else {"hash": digest(raw)}
    part = part_from(block)
    assert part == {"type": kind, **hashed, "extra": block}
    assert is_part(part)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "compaction", "content": "so far"},
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "search_result", "source": "u", "title": "t", "content": []},
        {"type": "tool_reference", "tool_name": "f"},
        {"type": "nobody_heard_of_this", "x": [1]},
        {"type": 5, "x": 1},
        {"x": 1},
        {"type": "text", "text": 5},
        {"type": "thinking", "thinking": [5]},
        {"type": "thinking", "thinking": "a", "signature": 5},
        {"type": "redacted_thinking"},
        {"type": "tool_use", "name": 5, "input": {}},
        {"type": "tool_result", "tool_use_id": "t", "content": 5},
        {"type": "tool_result", "content": [{"type": "tool_result", "content": []}]},
    ],
)
def test_what_is_not_known_is_kept_whole(block: dict[str, Any]) -> None:
    assert part_from(block) == {"type": "other", "extra": block}


def test_a_result_may_hold_parts_of_every_kind() -> None:
    image = {"type": "image", "source": {"type": "base64", "data": PIXEL}}
    found = {"type": "search_result", "content": [{"type": "text", "text": "x"}]}
    part = part_from({"type": "tool_result", "tool_use_id": "t", "content": [image, found, "end"]})
    assert part["content"] == [
        {"type": "image", "hash": digest(b"pixel"), "extra": image},
        {"type": "other", "extra": found},
        {"type": "text", "text": "end"},
    ]
    assert is_part(part)


@pytest.mark.parametrize("block", [None, 5, [], True, {"type": "tool_result", "content": [5]}])
def test_what_is_no_block_is_refused(block: Any) -> None:
    with pytest.raises(ValueError):
        part_from(block)


def test_absurdly_nested_input_is_refused() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="arguments"):
        part_from({"type": "tool_use", "name": "f", "input": deep})


def test_a_message_keeps_its_order_and_its_other_fields() -> None:
    blocks = [
        {"type": "tool_result", "tool_use_id": "t", "content": "1"},
        {"type": "text", "text": "and"},
        {"type": "tool_result", "tool_use_id": "u", "content": "2"},
    ]
    message = message_from({"role": "user", "content": blocks, "id": "m", "none": None})
    assert [part["type"] for part in message["content"]] == ["tool_result", "text", "tool_result"]
    assert (message["role"], message["extra"]) == ("user", {"id": "m"})
    assert message_from({"role": "assistant", "content": None}) == {"role": "assistant", "content": []}


@pytest.mark.parametrize("message", [None, "hi", {}, {"role": 5}, {"role": "user", "content": 5}])
def test_what_is_no_message_is_refused(message: Any) -> None:
    with pytest.raises(ValueError):
        message_from(message)


HI = {"role": "user", "content": "hi"}
SAID = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


@pytest.mark.parametrize("system", ["be brief", [{"type": "text", "text": "be brief"}]])
def test_the_system_prompt_is_the_first_message(system: Any) -> None:
    prompt = {"role": "system", "content": [{"type": "text", "text": "be brief"}]}
    assert asked_from({"system": system, "messages": [HI]}).messages == [prompt, SAID]


@pytest.mark.parametrize("system", [None, "", []])
def test_no_system_prompt_makes_no_message(system: Any) -> None:
    assert asked_from({"system": system, "messages": [HI]}).messages == [SAID]


def test_a_system_message_in_the_list_stays_where_it_is() -> None:
    inner = {"role": "system", "content": "later"}
    text = [{"type": "text", "text": "later"}]
    assert asked_from({"messages": [HI, inner]}).messages == [SAID, {"role": "system", "content": text}]
    first = asked_from({"messages": [inner, HI]}).messages
    assert first == [{"role": "system", "content": text, "extra": {IN_LIST: True}}, SAID]
    both = asked_from({"system": "s", "messages": [inner, HI]}).messages
    assert [message["role"] for message in both] == ["system", "system", "user"]
    assert all("extra" not in message for message in both)


def test_what_steers_the_sampling_and_what_does_not() -> None:
    steers = {
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stop_sequences": ["x"],
        "thinking": {"type": "adaptive"},
        "tool_choice": {"type": "auto"},
        "output_config": {"effort": "low"},
        "context_management": {"edits": []},
        "heard_of_by_nobody": 1,
    }
    kept = {"metadata": {"user_id": "u"}, "stream": True, "service_tier": "auto", "betas": ["b"], "container": "c"}
    tools = [{"name": "f", "input_schema": {}}]
    asked = asked_from({**steers, **kept, "tools": tools, "model": "m", "messages": []}, added=["temperature"])
    assert asked.sampling == {key: value for key, value in steers.items() if key != "temperature"}
    assert (asked.extra, asked.tools, asked.model, asked.continues) == (kept, tools, "m", None)


def test_the_model_is_the_bodys_or_the_paths() -> None:
    assert asked_from({"messages": [], "model": "body"}, "path").model == "body"
    assert asked_from({"messages": [], "model": "body"}, "path").extra == {}
    named = asked_from({"messages": []}, "path")
    assert (named.model, named.extra) == ("path", {IN_PATH: True})
    assert asked_from({"messages": []}).extra == {}


@pytest.mark.parametrize(
    "body",
    [{}, {"messages": None}, {"messages": "hi"}, {"messages": [5]}, {"messages": [], "system": 5}, {"prompt": "x"}],
)
def test_a_request_that_is_none_is_unparseable(body: dict[str, Any]) -> None:
    with pytest.raises(Unparseable, match="request"):
        asked_from(body)
