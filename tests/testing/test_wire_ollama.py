from __future__ import annotations

from typing import Any

import orjson

from stepwell.testing import Delivery, Reply, ToolCall
from stepwell.testing._dialect import Received
from stepwell.testing._wire_ollama import OllamaChat, OllamaGenerate

from .dialogue import STREAMED, ask

CHAT, GENERATE = (next(way for way in STREAMED if way.dialect == f"ollama.{kind}") for kind in ("chat", "generate"))


def read(**body: Any) -> Any:
    return OllamaChat().read(Received({"messages": [], **body}))


def test_what_a_script_sees_of_a_conversation() -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    asked = read(
        model="llama-x",
        messages=[
            {"role": "user", "content": "Was?", "images": ["aGk="]},
            {"role": "assistant", "thinking": "hm", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            {"role": "tool", "tool_name": "f", "content": "28"},
        ],
        tools=tools,
        options={"num_predict": 7},
    )
    assert asked.messages == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Was?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning": "hm",
            "tool_calls": [{"id": "call-1-0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "f", "content": "28"},
    ]
    assert (asked.tools, asked.model, asked.stream, asked.max_tokens) == (tools, "llama-x", True, 7)
    assert not read(stream=False).stream


def test_a_prompt_with_and_without_a_system_text() -> None:
    generate = OllamaGenerate()
    assert generate.read(Received({})).messages == [{"role": "user", "content": ""}]
    assert generate.read(Received({"prompt": "hi", "system": "kurz"})).messages == [
        {"role": "system", "content": "kurz"},
        {"role": "user", "content": "hi"},
    ]


def test_the_lines_of_a_stream() -> None:
    reply = Reply("hi", [ToolCall("f", '{"a":  1}', "c1")], "hm", delivery=Delivery(chunk_tokens=100))
    response = ask(CHAT, reply).response
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [orjson.loads(line) for line in response.content.splitlines()]
    assert [line["done"] for line in lines] == [False, False, False, True]
    assert [lines[0]["message"]["thinking"], lines[1]["message"]["content"]] == ["hm", "hi"]
    assert lines[2]["message"]["tool_calls"][0]["function"] == {"index": 0, "name": "f", "arguments": {"a": 1}}
    assert lines[3]["done_reason"] == "stop"
    assert b'"arguments":{"a":  1}' in response.content


def test_generate_has_no_message() -> None:
    lines = [orjson.loads(line) for line in ask(GENERATE, Reply("hi", (), "hm")).response.content.splitlines()]
    assert [(line["response"], line.get("thinking")) for line in lines] == [("", "hm"), ("hi", None), ("", None)]
