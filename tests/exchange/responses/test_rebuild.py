"""Steps back to the bodies that they were parsed from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Exchange, Request, Response, parse
from stepwell.exchange._responses.dialect import OpenAIResponses
from stepwell.sdk.records import Step

DIALECT = OpenAIResponses()


def step_of(asked: dict[str, Any], answer: dict[str, Any], status: int = 200) -> Step:
    (step,) = parse(
        Exchange(
            id="x",
            dialect="openai.responses",
            request=Request("POST", "https://llm/v1/responses", [], json.dumps(asked).encode(), 1),
            response=Response(status, [], json.dumps(answer).encode(), "complete", 2),
        )
    )
    return step


def response(*output: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "r", "object": "response", "model": "m-1", "status": "completed", "output": list(output), **fields}


ASKED: list[dict[str, Any]] = [
    {"type": "message", "id": "m", "role": "developer", "content": [{"type": "input_text", "text": "be brief"}]},
    {
        "role": "user",
        "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "https://x/y"}],
    },
    {"type": "additional_tools", "id": "at", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]},
    {"type": "function_call_output", "id": "o", "call_id": "c", "output": [{"type": "input_text", "text": "4"}]},
    {"type": "custom_tool_call_output", "call_id": "c", "output": []},
    {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": "f"}},
    {"type": "shell_call_output", "call_id": "c", "max_output_length": 9, "output": [{"stdout": "a", "stderr": ""}]},
    {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [{"type": "function", "name": "f"}]},
    {"type": "apply_patch_call_output", "call_id": "c", "status": "completed", "output": []},
    {"type": "local_shell_call_output", "call_id": "c", "output": 7},
    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": False},
    {"type": "compaction_trigger"},
]
SAID: list[dict[str, Any]] = [
    {"type": "message", "id": "m", "role": "assistant", "status": "completed", "phase": "commentary", "content": []},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
    },
    {"role": "assistant", "content": [{"type": "output_text", "text": ""}]},
    {"role": "assistant", "content": [{"type": "of tomorrow"}, {"type": "output_text", "text": "a"}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "input_image", "image_url": "u"}]},
    {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "g"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": ""}]},
    {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "a"}],
        "content": [{"type": "reasoning_text", "text": "b"}],
        "status": "completed",
        "format": "x",
    },
    {"type": "reasoning", "summary": [], "content": [{"type": "text", "text": "b", "signature": "s"}]},
    {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": '{"a": 1', "status": "incomplete"},
    {"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": "ls", "namespace": "functions"},
    {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "image_generation_call", "id": "i", "result": "AA=="},
    {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "t"}]},
    {"type": "compaction", "id": "k", "encrypted_content": "g"},
    {"type": "program_output", "id": "p", "result": "1"},
    {"type": "of tomorrow", "x": [1]},
]
REFERENCE = {"type": "item_reference", "id": "rs_0"}


@pytest.mark.parametrize("item", [*ASKED, *SAID, REFERENCE], ids=lambda item: f"{item.get('type', item.get('role'))}")
def test_every_item_comes_back_as_it_was(item: dict[str, Any]) -> None:
    step = step_of({"model": "m", "input": [item]}, response(*([item] if item in SAID else [])))
    assert DIALECT.request_of(step)["input"] == [item]
    assert DIALECT.answer_of([step])["output"] == ([item] if item in SAID else [])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*ASKED, *SAID, REFERENCE]), max_size=8), st.lists(st.sampled_from(SAID), max_size=6))
def test_conversations_come_back_item_by_item(history: list[dict[str, Any]], output: list[dict[str, Any]]) -> None:
    step = step_of({"model": "m", "input": history}, response(*output))
    assert DIALECT.request_of(step)["input"] == history
    assert DIALECT.answer_of([step])["output"] == output


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "m", "input": "hi"},
        {"model": "m", "input": "", "instructions": "be brief"},
        {"model": "m", "input": [], "instructions": ""},
        {"model": "m", "input": [], "instructions": [{"role": "user", "content": "x"}]},
        {"model": "m", "input": [], "previous_response_id": "resp_0"},
        {"model": "m", "input": [], "conversation": {"id": "conv_0"}},
        {"model": "m", "input": [], "conversation": "conv_0", "previous_response_id": "resp_0"},
        {"model": "m", "input": [], "prompt": {"id": "pmpt_0", "variables": {"a": "b"}}},
        {"model": "m", "input": "x", "tools": [{"type": "web_search"}], "tool_choice": "auto", "temperature": 0},
        {"model": "m", "input": [ASKED[2]], "tools": [{"type": "web_search"}]},
        {"model": "m", "input": "x", "metadata": {"a": "b"}, "stream": True, "vendor_setting": {"x": 1}},
    ],
)
def test_the_request_comes_back(asked: dict[str, Any]) -> None:
    assert DIALECT.request_of(step_of(asked, response())) == asked


def test_the_answer_comes_back_with_what_it_repeats() -> None:
    asked = {"model": "m", "input": "x", "instructions": "be brief " * 99, "tools": [{"type": "function", "name": "f"}]}
    answer = response(
        SAID[1],
        usage={"input_tokens": 1},
        instructions=asked["instructions"],
        tools=[{"type": "function", "name": "f", "strict": True}],
        incomplete_details={"reason": "x"},
        temperature=1.0,
    )
    step = step_of(asked, answer)
    assert DIALECT.answer_of([step]) == answer
    assert step.model_dump_json().count("be brief " * 99) == 1


def test_an_answer_that_failed_comes_back_with_its_error() -> None:
    answer = response(status="failed", error={"code": "x"})
    assert DIALECT.answer_of([step_of({"input": "x"}, answer)]) == answer


def test_parts_that_carry_no_marks_are_items_all_the_same() -> None:
    step = step_of({"input": "x"}, response())
    said = [
        {"type": "reasoning", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "tool_call", "id": "c", "name": "f", "arguments": "{}"},
    ]
    other = step.model_copy(update={"response": {"role": "assistant", "content": said}})
    assert DIALECT.answer_of([other])["output"] == [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ]
