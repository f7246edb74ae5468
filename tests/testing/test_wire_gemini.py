from __future__ import annotations

from typing import Any

import orjson

from stepwell.testing import Delivery, Reply, ToolCall
from stepwell.testing._dialect import Received
from stepwell.testing._wire_gemini import Gemini

from .dialogue import STREAMED, ask

SSE, ARRAY = (way for way in STREAMED if way.dialect == "gemini")


def read(path: str = "/v1beta/models/gemini-x:generateContent", **body: Any) -> Any:
    return Gemini().read(Received({"contents": [], **body}, path, {"collection": "models", "model": "gemini-x"}))


def test_what_a_script_sees_of_a_conversation() -> None:
    call, result = {"name": "f", "args": {"ort": "Zürich"}}, {"name": "f", "response": {"grad": 28}}
    asked = read(
        systemInstruction={"parts": [{"text": "Sei kurz"}]},
        contents=[
            {"role": "user", "parts": [{"text": "Was?"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
            {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "So."}, {"functionCall": call}]},
            {"role": "user", "parts": [{"functionResponse": result}, {"text": "und?"}]},
        ],
        tools=[
            {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}]}
        ],
        generationConfig={"maxOutputTokens": 7, "candidateCount": 2},
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
            "tool_calls": [
                {"id": "f-2-0", "type": "function", "function": {"name": "f", "arguments": '{"ort": "Zürich"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "f", "content": '{"grad": 28}'},
        {"role": "user", "content": "und?"},
    ]
    assert asked.tools == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    ]
    assert (asked.model, asked.stream, asked.n, asked.max_tokens) == ("gemini-x", False, 2, 7)


def test_fields_may_be_spelled_as_in_protobuf() -> None:
    system = {"parts": [{"text": "Sei kurz"}]}
    assert read(system_instruction=system).messages == read(systemInstruction=system).messages
    assert read(generation_config={"maxOutputTokens": 7}).max_tokens == 7
    assert read(path="/v1/models/m:streamGenerateContent").stream


def test_the_two_forms_of_a_stream_say_the_same() -> None:
    reply = Reply("hi there", [ToolCall("f", '{"a":  1}', "c1")], delivery=Delivery(chunk_tokens=1))
    events, array = ask(SSE, reply).response, ask(ARRAY, reply).response
    chunks = [orjson.loads(event.removeprefix(b"data: ")) for event in events.content.strip().split(b"\n\n")]
    listed = orjson.loads(array.content)
    for chunk in (*chunks, *listed):
        chunk.pop("responseId")
    assert chunks == listed
    assert (events.headers["content-type"], array.headers["content-type"]) == ("text/event-stream", "application/json")
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"
    assert b'"args":{"a":  1}' in array.content


def test_a_call_cut_short_is_no_call() -> None:
    reply = Reply(None, [ToolCall("f", '{"a": 1}', "c1")], delivery=Delivery(chunk_tokens=1))
    chunks = orjson.loads(ask(ARRAY, reply, generationConfig={"maxOutputTokens": 12}).response.content)
    assert "functionCall" not in orjson.dumps(chunks).decode()
    assert chunks[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"


def test_several_candidates() -> None:
    reply = Reply("hi", delivery=Delivery(chunk_tokens=9))
    chunks = orjson.loads(ask(ARRAY, reply, generationConfig={"candidateCount": 2}).response.content)
    assert [chunk["candidates"][0]["index"] for chunk in chunks] == [0, 0, 1, 1]
