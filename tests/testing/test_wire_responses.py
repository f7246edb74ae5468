from __future__ import annotations

from typing import Any

import httpx2
import orjson
import pytest

from stepwell.testing import ChatCall, Delivery, Reply, ScriptedApp, ToolCall
from stepwell.testing._dialect import Received, Refused
from stepwell.testing._wire_responses import OnSocket, OpenAIResponses

from .dialogue import PLAIN, STREAMED, ask

WHOLE = next(way for way in PLAIN if way.dialect == "openai.responses")
STREAM = next(way for way in STREAMED if way.dialect == "openai.responses")
CALLS = [ToolCall("f", '{"a":  1}', "c1")]
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
ITEMS: list[Any] = [
    {"role": "developer", "content": "d"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Was?"}, IMAGE]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":  1}'},
    {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls -l"},
    {"type": "function_call_output", "call_id": "c1", "output": "28"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "x"}]},
    {"type": "additional_tools", "tools": [{"type": "custom", "name": "sh"}]},
]


def read(**body: Any) -> Any:
    return OpenAIResponses().read(Received(body))


def test_what_a_script_sees_of_a_conversation() -> None:
    asked = read(
        model="m",
        instructions="Sei kurz",
        input=ITEMS,
        tools=[{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        max_output_tokens=7,
    )
    assert asked.messages == [
        {"role": "system", "content": "Sei kurz"},
        {"role": "developer", "content": "d"},
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
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":  1}'}},
                {"id": "c2", "type": "function", "function": {"name": "sh", "arguments": "ls -l"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "28"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "x"}]},
    ]
    assert [tool["function"]["name"] for tool in asked.tools] == ["f", "sh"]
    assert (asked.model, asked.stream, asked.max_tokens, asked.silent) == ("m", False, 7, False)
    assert read(input="hi", generate=False).silent


@pytest.mark.parametrize("body", [{"input": 5}, {"input": [5]}, {"input": "x", "previous_response_id": "resp_none"}])
def test_what_it_refuses(body: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read(**body)


def test_the_events_of_a_stream_end_in_the_plain_answer() -> None:
    reply = Reply("hi there", CALLS, "hm", delivery=Delivery(chunk_tokens=1))
    body, whole = ask(STREAM, reply).response.content, ask(WHOLE, reply).response.json()
    lines = [event.split(b"\n") for event in body.strip().split(b"\n\n")]
    events = [orjson.loads(data.removeprefix(b"data: ")) for _, data in lines]
    assert [name.removeprefix(b"event: ").decode() for name, _ in lines] == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]["response"]
    assert events[-1]["type"] == "response.completed"

    def said(response: Any) -> Any:
        return [{key: value for key, value in item.items() if key != "id"} for item in response["output"]]

    assert said(last) == said(whole)
    assert last["usage"] == whole["usage"]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == last["output"]


def test_an_answer_cut_at_its_limit_is_incomplete() -> None:
    for way in (WHOLE, STREAM):
        step = ask(way, Reply("a b c d"), max_output_tokens=2).step()
        assert (step.status, step.finish_reason) == ("truncated", "incomplete")


def test_ids_as_vllm_gives_them() -> None:
    answered = ask(STREAM, Reply("Grüße", CALLS), enable_response_messages=True)
    step = answered.step()
    assert (step.prompt_ids, step.response_ids) == (answered.call.prompt_ids, answered.call.choices[0].response_ids)


def test_a_socket_is_always_streamed_and_takes_creates_only() -> None:
    dialect = OnSocket(OpenAIResponses())
    assert dialect.read(Received({"type": "response.create", "input": "hi"})).stream
    with pytest.raises(Refused, match=r"response\.create"):
        dialect.read(Received({"type": "session.update"}))
    error = orjson.loads(dialect.error(429, "slower").parts[0])
    assert (error["type"], error["status"], error["error"]["message"]) == ("error", 429, "slower")


async def test_instructions_count_for_one_call_only() -> None:
    """As the API has it: what is continued is what was said, not how the model was told to behave."""
    seen: list[ChatCall] = []

    def script(call: ChatCall) -> Reply:
        seen.append(call)
        return Reply("ja")

    transport = httpx2.ASGITransport(app=ScriptedApp(script).asgi)
    async with httpx2.AsyncClient(transport=transport, base_url="http://engine/v1") as client:
        first = (await client.post("/responses", json={"input": "a", "instructions": "kurz"})).json()
        await client.post("/responses", json={"input": "b", "previous_response_id": first["id"]})
        await client.post(
            "/responses", json={"input": "c", "previous_response_id": first["id"], "instructions": "lang"}
        )
    assert [message["content"] for message in seen[1].messages] == ["a", "ja", "b"]
    assert [message["content"] for message in seen[2].messages] == ["lang", "a", "ja", "c"]
