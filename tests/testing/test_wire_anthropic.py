from __future__ import annotations

from typing import Any

import orjson
import pytest

from stepwell.testing import Delivery, Reply, ToolCall
from stepwell.testing._dialect import Received, Refused
from stepwell.testing._wire_anthropic import AnthropicMessages

from .dialogue import PLAIN, STREAMED, ask

MESSAGES = next(way for way in PLAIN if way.dialect == "anthropic.messages")
STREAM = next(way for way in STREAMED if way.dialect == "anthropic.messages")
TEXT = {"type": "text", "text": "Was?"}
IMAGE = {"type": "base64", "media_type": "image/png", "data": "aGk="}
CONVERSATION: list[Any] = [
    {"role": "user", "content": [TEXT, {"type": "image", "source": IMAGE}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "x"},
            {"type": "text", "text": "Ich "},
            {"type": "text", "text": "schaue."},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {"ort": "Zürich"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "28"}]},
            {"type": "text", "text": "und?"},
        ],
    },
]


def read(**body: Any) -> Any:
    return AnthropicMessages().read(Received({"messages": [], **body}))


def test_what_a_script_sees_of_a_conversation() -> None:
    asked = read(
        model="claude-x",
        system=[
            {"type": "text", "text": "Sei", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": " kurz"},
        ],
        messages=CONVERSATION,
        tools=[{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        max_tokens=7,
    )
    assert asked.messages == [
        {"role": "system", "content": [{"type": "text", "text": "Sei"}, {"type": "text", "text": " kurz"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Was?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": "Ich schaue.",
            "reasoning": "hm",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"ort": "Zürich"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": "28"}]},
        {"role": "user", "content": "und?"},
    ]
    assert asked.tools == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    ]
    assert (asked.model, asked.stream, asked.n, asked.max_tokens) == ("claude-x", False, 1, 7)


@pytest.mark.parametrize("body", [{"messages": [{"content": "hi"}]}, {"max_tokens": 0}])
def test_what_it_refuses(body: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read(**body)


def test_a_plain_answer_keeps_the_letters_of_its_arguments() -> None:
    answered = ask(MESSAGES, Reply(tool_calls=[ToolCall("f", '{"n":  1.50}', "t1")]))
    assert b'"input":{"n":  1.50}' in answered.response.content
    assert answered.response.headers["request-id"].startswith("req_msg_")


def test_the_events_of_a_stream() -> None:
    calls = [ToolCall("f", "{}", "t1")]
    body = ask(STREAM, Reply("hi", calls, "hm", delivery=Delivery(chunk_tokens=100))).response.content
    lines = [event.split(b"\n") for event in body.strip().split(b"\n\n")]
    events = [orjson.loads(data.removeprefix(b"data: ")) for _, data in lines]
    assert [name.removeprefix(b"event: ").decode() for name, _ in lines] == [event["type"] for event in events]
    assert [event["type"] for event in events] == [
        "message_start", "ping",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_stop",
        "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert [event["index"] for event in events if "index" in event] == [0] * 4 + [1] * 3 + [2] * 4
    assert events[4]["delta"]["type"] == "signature_delta"
    assert events[9]["content_block"] == {"type": "tool_use", "id": "t1", "name": "f", "input": {}}


def test_an_error_is_named() -> None:
    errors = {status: orjson.loads(AnthropicMessages().error(status, "no").parts[0]) for status in (429, 529, 500, 418)}
    assert {status: body["error"]["type"] for status, body in errors.items()} == {
        429: "rate_limit_error",
        529: "overloaded_error",
        500: "api_error",
        418: "invalid_request_error",
    }
