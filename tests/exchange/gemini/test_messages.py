"""Contents and parts as canonical messages, and back."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._canonical import is_part, prefix_keys
from stepwell.exchange._gemini.messages import canonical_content, vendor_content

PNG = base64.b64encode(b"\x89PNG???>>>").decode()
HASH = f"sha256:{hashlib.sha256(base64.b64decode(PNG)).hexdigest()}"


def part(given: dict[str, Any]) -> dict[str, Any]:
    (made,) = canonical_content({"parts": [given]})["content"]
    assert is_part(made)
    return dict(made)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"text": "hi"}, {"type": "text", "text": "hi"}),
        ({"text": ""}, {"type": "text", "text": ""}),
        ({"text": "hi", "thought": False}, {"type": "text", "text": "hi"}),
        (
            {"text": "hi", "thought_signature": "s"},
            {"type": "text", "text": "hi", "extra": {"thoughtSignature": "s"}},
        ),
        ({"text": "hm", "thought": True}, {"type": "reasoning", "text": "hm"}),
        (
            {"text": "hm", "thought": True, "thoughtSignature": "s", "partMetadata": {"a": 1}},
            {"type": "reasoning", "text": "hm", "signature": "s", "extra": {"partMetadata": {"a": 1}}},
        ),
        (
            {"thoughtSignature": "s"},
            {"type": "reasoning", "text": "", "signature": "s", "extra": {"thought": False}},
        ),
        (
            {"functionCall": {"name": "f", "args": {"b": 1, "a": [1.0]}}},
            {"type": "tool_call", "id": None, "name": "f", "arguments": '{"b":1,"a":[1.0]}'},
        ),
        (
            {"function_call": {"id": "c", "name": "f", "will_continue": True}, "thoughtSignature": "s"},
            {
                "type": "tool_call",
                "id": "c",
                "name": "f",
                "arguments": "{}",
                "extra": {"thoughtSignature": "s", "functionCall": {"willContinue": True}},
            },
        ),
        (
            {"functionResponse": {"id": "c", "name": "f", "response": {"output": "é"}, "scheduling": "SILENT"}},
            {
                "type": "tool_result",
                "id": "c",
                "content": [{"type": "text", "text": '{"output":"é"}'}],
                "extra": {"functionResponse": {"name": "f", "scheduling": "SILENT"}},
            },
        ),
        (
            {"function_response": {"name": "f", "parts": [{"inline_data": {"mime_type": "image/png", "data": PNG}}]}},
            {
                "type": "tool_result",
                "id": None,
                "content": [
                    {
                        "type": "image",
                        "hash": HASH,
                        "extra": {"inlineData": {"mimeType": "image/png", "data": PNG}},
                    }
                ],
                "extra": {"functionResponse": {"name": "f"}},
            },
        ),
        (
            {"inlineData": {"mimeType": "audio/wav", "data": PNG.replace("+", "-").replace("/", "_")}},
            {
                "type": "audio",
                "hash": HASH,
                "extra": {"inlineData": {"mimeType": "audio/wav", "data": PNG.replace("+", "-").replace("/", "_")}},
            },
        ),
        (
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}, "videoMetadata": {"fps": 1}},
            {
                "type": "file",
                "extra": {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}, "videoMetadata": {"fps": 1}},
            },
        ),
        (
            {"fileData": {"fileUri": "https://youtu.be/x"}},
            {"type": "file", "extra": {"fileData": {"fileUri": "https://youtu.be/x"}}},
        ),
        (
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {
                "type": "server_tool",
                "name": "code_execution",
                "extra": {"executableCode": {"language": "PYTHON", "code": "1"}},
            },
        ),
        (
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "1"}},
            {
                "type": "server_tool",
                "name": "code_execution",
                "extra": {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            },
        ),
        (
            {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t", "args": {}}, "thoughtSignature": "s"},
            {
                "type": "server_tool",
                "name": "GOOGLE_SEARCH_WEB",
                "extra": {
                    "id": "t",
                    "toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t", "args": {}},
                    "thoughtSignature": "s",
                },
            },
        ),
        (
            {"tool_response": {"tool_type": 5}},
            {"type": "server_tool", "name": "tool", "extra": {"toolResponse": {"toolType": 5}}},
        ),
        (
            {"functionCall": {"name": "f", "args": "{cut"}},
            {"type": "tool_call", "id": None, "name": "f", "arguments": "{cut"},
        ),
        (
            {"functionResponse": {"response": "no object"}},
            {"type": "tool_result", "id": None, "content": [{"type": "text", "text": '"no object"'}]},
        ),
        ({"hologram": {"x": 1}}, {"type": "other", "extra": {"hologram": {"x": 1}}}),
        ({"functionCall": "f"}, {"type": "other", "extra": {"functionCall": "f"}}),
        ({"text": 5}, {"type": "other", "extra": {"text": 5}}),
        ({}, {"type": "other", "extra": {}}),
    ],
)
def test_every_kind_of_part(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert part(given) == wanted


def test_what_a_part_says_twice_is_two_parts() -> None:
    made = canonical_content({"parts": [{"text": "", "functionCall": {"name": "f"}, "thoughtSignature": "s"}]})
    assert made["content"] == [
        {"type": "tool_call", "id": None, "name": "f", "arguments": "{}", "extra": {"thoughtSignature": "s"}},
        {"type": "text", "text": ""},
    ]


def test_names_and_ids_that_are_no_text_stay_beside() -> None:
    assert part({"functionCall": {"name": 5, "id": 6}}) == {
        "type": "tool_call",
        "id": None,
        "name": "",
        "arguments": "{}",
        "extra": {"functionCall": {"name": 5, "id": 6}},
    }


def test_results_in_results_are_not_followed() -> None:
    inner: dict[str, Any] = {"text": "x"}
    for _ in range(200):
        inner = {"functionResponse": {"parts": [inner]}}
    made = part({"functionResponse": {"parts": [inner]}})
    assert made["content"] == [{"type": "other", "extra": inner}]


@pytest.mark.parametrize(
    ("content", "role", "message"),
    [
        ({"role": "user", "parts": []}, None, {"role": "user", "content": []}),
        ({"role": "model", "parts": []}, None, {"role": "assistant", "content": []}),
        ({"role": "function"}, None, {"role": "tool", "content": []}),
        ({"role": "tool"}, None, {"role": "tool", "content": [], "extra": {"role": "tool"}}),
        ({"role": "assistant"}, None, {"role": "assistant", "content": [], "extra": {"role": "assistant"}}),
        ({"role": "agent"}, None, {"role": "user", "content": [], "extra": {"role": "agent"}}),
        ({"role": 5}, None, {"role": "user", "content": [], "extra": {"role": 5}}),
        ({"role": "system"}, None, {"role": "system", "content": [], "extra": {"role": "system"}}),
        ({"role": "system"}, "system", {"role": "system", "content": []}),
        ({"role": "user"}, "system", {"role": "system", "content": [], "extra": {"role": "user"}}),
        ({"role": "model"}, "assistant", {"role": "assistant", "content": []}),
        ({}, "assistant", {"role": "assistant", "content": []}),
        ({}, None, {"role": "user", "content": []}),
        ({"parts": {"text": "a"}}, None, {"role": "user", "content": [{"type": "text", "text": "a"}]}),
        ({"parts": ["a"]}, None, {"role": "user", "content": [{"type": "text", "text": "a"}]}),
        ("a", "system", {"role": "system", "content": [{"type": "text", "text": "a"}]}),
        ({"parts": None, "x_y": 1}, None, {"role": "user", "content": [], "extra": {"xY": 1}}),
    ],
)
def test_contents(content: Any, role: str | None, message: dict[str, Any]) -> None:
    assert canonical_content(content, role) == message


@pytest.mark.parametrize("content", [None, 5, [], [{"text": "a"}], {"parts": 5}, {"parts": [5]}, {"parts": [None]}])
def test_what_is_no_content(content: object) -> None:
    with pytest.raises(Unparseable):
        canonical_content(content)


def test_a_result_too_deep_to_write_is_unparseable() -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(Unparseable, match="cannot be written"):
        part({"functionCall": {"name": "f", "args": deep}})


@pytest.mark.parametrize(
    "content",
    [
        {"role": "user", "parts": [{"text": "a"}, {"text": "b", "thoughtSignature": "s"}]},
        {"role": "model", "parts": [{"text": "a", "thought": True, "thoughtSignature": "s"}, {"thoughtSignature": "t"}]},
        {"role": "model", "parts": [{"thought": True, "text": "", "thoughtSignature": "s"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "id": "c", "args": {"a": 1}}, "thoughtSignature": "s"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "", "args": "{cut", "partialArgs": [5]}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"x": [1, "é"]}, "id": "c"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "parts": [{"fileData": {"fileUri": "gs://x"}}]}}]},
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}, {"hologram": 1}]},
        {"role": "model", "parts": [{"executableCode": {"code": "1"}}, {"codeExecutionResult": {"output": "1"}}]},
        {"role": "model", "parts": [{"toolCall": {"toolType": "T", "id": "t"}, "thoughtSignature": "s"}]},
        {"role": "agent", "parts": [{"text": ""}], "weight": 1},
    ],
)  # fmt: skip
def test_there_and_back(content: dict[str, Any]) -> None:
    assert vendor_content(canonical_content(content)) == content
    assert canonical_content(vendor_content(canonical_content(content))) == canonical_content(content)


def test_a_system_prompt_has_no_role_unless_it_was_given_one() -> None:
    assert vendor_content(canonical_content({"parts": [{"text": "a"}]}, "system")) == {"parts": [{"text": "a"}]}
    given = {"role": "user", "parts": [{"text": "a"}]}
    assert vendor_content(canonical_content(given, "system")) == given


def test_an_answer_told_again_in_the_next_request_is_the_same_message() -> None:
    answered = [
        {"text": "hm", "thought": True, "thoughtSignature": "s"},
        {"text": "Let me "},
        {"text": "see."},
        {"functionCall": {"name": "f", "args": {"a": 1, "b": 2.0}}, "thoughtSignature": "s"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"toolCall": {"toolType": "T", "id": "t", "args": {"q": 1}}, "thoughtSignature": "+/8="},
    ]
    echoed = [
        {"text": "Let me see."},
        {"function_call": {"name": "f", "args": {"b": 2, "a": 1}, "id": "made up"}},
        {"inline_data": {"mime_type": "image/png", "data": PNG.replace("/", "_").replace("+", "-")}},
        {"tool_call": {"tool_type": "T", "id": "t", "args": {"q": 1}}, "thought_signature": "-_8="},
    ]
    first = canonical_content({"role": "model", "parts": answered}, "assistant")
    again = canonical_content({"role": "model", "parts": echoed})
    assert prefix_keys([first]) == prefix_keys([again])
    other = canonical_content({"role": "model", "parts": echoed[1:]})
    assert prefix_keys([first]) != prefix_keys([other])
