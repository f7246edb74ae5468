from __future__ import annotations

from typing import Any

import orjson
import pytest
from botocore.eventstream import EventStreamBuffer

from stepwell.testing import Delivery, Reply, ToolCall
from stepwell.testing._aws_frames import MEDIA_TYPE
from stepwell.testing._delivery import frame
from stepwell.testing._dialect import Body, Received, Refused
from stepwell.testing._wire_bedrock import BedrockConverse, BedrockInvoke

from .dialogue import PLAIN, STREAMED, ask

CONVERSE, INVOKE = (way for way in PLAIN if way.dialect.startswith("bedrock"))
STREAM, INVOKE_STREAM = (way for way in STREAMED if way.dialect.startswith("bedrock"))
CALLS = [ToolCall("f", '{"a":  1}', "t1")]


def read(**body: Any) -> Any:
    return BedrockConverse().read(Received({"messages": [], **body}, "/model/m/converse", {"model": "m"}))


def frames(body: bytes) -> list[tuple[str, Any]]:
    """Kind and payload of each frame, as AWS's own reader has them: it checks both sums."""
    buffer = EventStreamBuffer()
    buffer.add_data(body)
    return [(event.headers[":event-type"], orjson.loads(event.payload)) for event in buffer]


def test_what_a_script_sees_of_a_conversation() -> None:
    asked = read(
        system=[{"text": "Sei kurz"}],
        messages=[
            {"role": "user", "content": [{"text": "Was?"}, {"image": {"format": "png", "source": {"bytes": "aGk="}}}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "x"}}},
                    {"text": "So."},
                    {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}},
                ],
            },
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"json": {"grad": 28}}]}}]},
        ],
        toolConfig={"tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]},
        inferenceConfig={"maxTokens": 7},
    )
    assert asked.messages == [
        {"role": "system", "content": "Sei kurz"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Was?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": "So.",
            "reasoning": "hm",
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": '{"grad":28}'}]},
    ]
    assert asked.tools == [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
    assert (asked.model, asked.stream, asked.max_tokens) == ("m", False, 7)


def test_the_frames_of_converse() -> None:
    reply = Reply("hi", CALLS, "hm", delivery=Delivery(chunk_tokens=100))
    answered = ask(STREAM, reply)
    assert answered.response.headers["content-type"] == "application/vnd.amazon.eventstream"
    assert answered.response.headers["x-amzn-requestid"] == answered.call.call_id
    events = frames(answered.response.content)
    assert [kind for kind, _ in events] == [
        "messageStart",
        "contentBlockDelta", "contentBlockStop",
        "contentBlockDelta", "contentBlockStop",
        "contentBlockStart", "contentBlockDelta", "contentBlockStop",
        "messageStop", "metadata",
    ]  # fmt: skip
    assert events[5][1]["start"] == {"toolUse": {"toolUseId": "t1", "name": "f"}}
    assert events[6][1] == {"contentBlockIndex": 2, "delta": {"toolUse": {"input": '{"a":  1}'}}}


def test_frames_are_not_touched_by_what_is_for_lines() -> None:
    framed = frame(Body([b"\n"], MEDIA_TYPE), Delivery(crlf=True), stream=True)
    assert framed.messages == [b"\n"]


def test_invoke_wraps_anthropics_events() -> None:
    body = ask(INVOKE_STREAM, Reply("hi", CALLS)).response.content
    events = frames(body)
    assert {kind for kind, _ in events} == {"chunk"}
    last = ask(INVOKE_STREAM, Reply("hi"))
    assert "amazon-bedrock-invocationMetrics" in str((last.step().extra or {}).get("response"))
    assert ask(INVOKE, Reply("hi")).response.json()["id"].startswith("msg_bdrk_")


def test_invoke_speaks_anthropics_protocol_only() -> None:
    with pytest.raises(Refused, match="anthropic_version"):
        BedrockInvoke().read(Received({"prompt": "hi"}, "/model/m/invoke", {"model": "m"}))


def test_errors_are_named_in_the_head() -> None:
    body = BedrockConverse().error(429, "slower")
    assert (body.headers, body.parts) == ({"x-amzn-errortype": "ThrottlingException"}, [b'{"message":"slower"}'])
    assert BedrockConverse().error(502, "").headers["x-amzn-errortype"] == "InternalServerException"


def test_a_model_is_what_its_path_says() -> None:
    way = type(CONVERSE)("bedrock.converse", "/model/arn%3Aaws%3Abedrock%2Fm%2Fx%3A0/converse", CONVERSE.body)
    assert ask(way, Reply("hi")).call.model == "arn:aws:bedrock/m/x:0"
