"""Items of a request and of an answer as canonical messages."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._responses.items import answer_message, input_messages, item_tools


def roles(*items: dict[str, Any]) -> list[str]:
    return [message["role"] for message in input_messages(items)]


def parts(item: dict[str, Any]) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = answer_message([item])["content"]
    return content


@pytest.mark.parametrize("kind", [{}, {"type": "message"}])
@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_a_message_keeps_its_role_and_its_fields(kind: dict[str, Any], role: str) -> None:
    (message,) = input_messages([{**kind, "role": role, "id": "msg_1", "content": "hi"}])
    assert message == {
        "role": role,
        "content": [{"type": "text", "text": "hi"}],
        "extra": {**kind, "id": "msg_1"},
    }


def test_neighbouring_items_of_the_assistant_are_one_message() -> None:
    user = {"role": "user", "content": "x"}
    made = [
        {"type": "reasoning", "summary": []},
        {"role": "assistant", "content": "a"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""},
        {"type": "local_shell_call", "call_id": "d"},
        {"type": "computer_call", "call_id": "e"},
        {"type": "apply_patch_call", "call_id": "f"},
        {"type": "web_search_call", "id": "ws"},
        {"type": "mcp_list_tools", "id": "m"},
        {"type": "mcp_call", "id": "m"},
        {"type": "mcp_approval_request", "id": "m"},
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "program", "code": "x"},
        {"type": "program_output", "result": "x"},
        {"type": "item_reference", "id": "msg_0"},
        {"id": "msg_0"},
        {"type": "of tomorrow"},
    ]
    messages = input_messages([user, *made, user])
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1] == answer_message(made)
    assert [part["type"] for part in messages[1]["content"]] == [
        *("reasoning", "text", "tool_call"),
        *["server_tool"] * 7,
        "other",
        "server_tool",
        "server_tool",
        *["other"] * 3,
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "function_call_output",
        "custom_tool_call_output",
        "computer_call_output",
        "local_shell_call_output",
        "apply_patch_call_output",
        "shell_call_output",
        "tool_search_output",
    ],
)
def test_what_a_client_ran_is_a_message_of_the_tool(kind: str) -> None:
    messages = input_messages([{"type": kind, "call_id": "c", "id": "o", "output": "done"}] * 2)
    assert [message["role"] for message in messages] == ["tool", "tool"]
    (result,) = messages[0]["content"]
    assert (result["type"], result["id"]) == ("tool_result", "c")
    assert result["extra"]["type"] == kind


def test_what_the_server_ran_belongs_to_the_answer() -> None:
    call = {"type": "shell_call", "call_id": "c", "environment": {"type": "container_reference", "container_id": "k"}}
    output = {"type": "shell_call_output", "call_id": "c", "output": []}
    search = {"type": "tool_search_output", "execution": "server", "tools": []}
    assert roles(call, output, search) == ["assistant"]
    assert roles({**call, "environment": {"type": "local"}}, output) == ["assistant", "tool"]
    assert roles({**search, "execution": "client"}) == ["tool"]


def test_what_only_a_client_says_stands_for_itself() -> None:
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}
    approval = {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}
    messages = input_messages([tools, {"role": "user", "content": "x"}, approval, {"type": "compaction_trigger"}])
    assert [message["role"] for message in messages] == ["developer", "user", "user", "developer"]
    assert messages[0]["content"] == [{"type": "other", "extra": tools}]
    assert item_tools(messages) == tools["tools"]


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("done", [{"type": "text", "text": "done"}]),
        ("", []),
        (None, []),
        ([{"type": "input_text", "text": "a"}], [{"type": "text", "text": "a"}]),
        ([{"stdout": "x"}], [{"type": "other", "extra": {"stdout": "x"}}]),
        (7, [{"type": "other", "extra": {"output": 7}}]),
    ],
)
def test_the_output_of_a_tool_in_every_form(output: Any, content: list[dict[str, Any]]) -> None:
    (message,) = input_messages([{"type": "function_call_output", "call_id": "c", "output": output}])
    assert message["content"][0]["content"] == content


def test_a_screenshot_is_an_image_with_the_hash_of_its_bytes() -> None:
    shot = {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="}
    (message,) = input_messages([{"type": "computer_call_output", "call_id": "c", "output": shot}])
    (image,) = message["content"][0]["content"]
    assert image["type"] == "image"
    assert image["hash"].startswith("sha256:")
    assert image["extra"] == shot


def test_each_text_of_a_thought_is_a_part() -> None:
    thought = {
        "type": "reasoning",
        "id": "rs",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "s"}],
        "content": [{"type": "reasoning_text", "text": "c"}],
        "encrypted_content": "gAAA",
    }
    assert parts(thought) == [
        {
            "type": "reasoning",
            "text": "s",
            "extra": {"item": {"id": "rs", "status": "completed", "parts": 2}},
            "redacted": "gAAA",
        },
        {"type": "reasoning", "text": "c", "extra": {"field": "content"}},
    ]


def test_a_thought_without_words_is_kept() -> None:
    assert parts({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "g"}) == [
        {"type": "reasoning", "text": "", "extra": {"item": {"id": "rs", "after": 0}}, "redacted": "g"}
    ]
    (part,) = parts({"type": "reasoning", "summary": [3]})
    assert part["extra"]["item"]["summary"] == [3]


def test_calls_keep_the_text_of_the_model() -> None:
    function = {
        "type": "function_call",
        "id": "fc",
        "call_id": "c",
        "name": "f",
        "arguments": '{"a": 1',
        "namespace": "n",
    }
    custom = {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "ls\n"}
    compatible = {"type": "function_call", "call_id": "e", "name": "h", "arguments": {"b": 1}}
    assert parts(function) == [
        {
            "type": "tool_call",
            "id": "c",
            "name": "f",
            "arguments": '{"a": 1',
            "extra": {"item": {"id": "fc", "namespace": "n"}},
        }
    ]
    assert parts(custom)[0]["arguments"] == "ls\n"
    assert parts(custom)[0]["extra"] == {"item": {"type": "custom_tool_call"}}
    assert parts(compatible)[0]["arguments"] == '{"b":1}'


def test_a_message_of_several_parts_counts_them() -> None:
    text = {"type": "output_text", "text": "a", "annotations": []}
    refusal = {"type": "refusal", "refusal": "no"}
    assert parts(
        {"type": "message", "id": "m", "role": "assistant", "phase": "final_answer", "content": [text, refusal]}
    ) == [
        {
            "type": "text",
            "text": "a",
            "extra": {"item": {"type": "message", "id": "m", "phase": "final_answer", "parts": 2}},
        },
        {"type": "refusal", "text": "no"},
    ]


def test_a_message_of_something_else_is_announced() -> None:
    (first, second) = parts({"role": "assistant", "content": [{"type": "of tomorrow", "x": 1}]})
    assert first == {"type": "text", "text": "", "extra": {"item": {"after": 1}}}
    assert second == {"type": "other", "extra": {"type": "of tomorrow", "x": 1}}


@pytest.mark.parametrize("items", [[3], ["text"], [{"role": "user", "content": 3}], [{"role": "user", "content": [3]}]])
def test_what_is_no_item_is_refused(items: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"no object|neither text nor"):
        input_messages(items)
    with pytest.raises(ValueError, match=r"no object|neither text nor"):
        answer_message(items)
