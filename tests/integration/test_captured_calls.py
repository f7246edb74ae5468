"""What the official SDK asks and gets through the proxy becomes steps that equal what the server sampled."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.testing import ChatCall, Delivery, Reply, ToolCall

from .conftest import PLAIN, Site, assert_same, say, texts, tool_calls

TEXT = 'Grüße 👋🏽 an alle — 数据仓库, ‏עברית, e\u0301, \U0001f9d1\u200d\U0001f680 und "\\n" \u2028.'
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "wetter",
            "description": "Wie ist das Wetter in … ☀️?",
            "parameters": {"type": "object", "properties": {"ort": {"type": "string"}}},
        },
    }
]
CALLS = [ToolCall("wetter", '{"ort":  "Zürich 🏔"}', "call_1"), ToolCall("wetter", '{"ort":"東京"}', "call_2")]


def streamed(stream: Any) -> str:
    """The text of choice 0, from the chunks of a streamed answer."""
    chunks = [chunk for chunk in stream if chunk.choices]
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def test_a_plain_call(over: Site) -> None:
    over.script(Reply(content=TEXT))
    answer = over.openai(over.name).chat.completions.create(
        model="modell-ä", messages=say(TEXT), temperature=1.0, extra_headers={"x-request-id": "r1"}
    )
    assert answer.choices[0].message.content == TEXT
    (call,) = over.calls
    (row,) = over.rows(1)
    assert_same(row, call)
    assert answer.id == call.call_id
    assert texts(row["response"]) == TEXT
    assert row["messages"] is not None
    assert row["sampling"] == '{"temperature":1.0}'  # not what the route added
    assert (row["model_asked"], row["model"], row["engine"]) == ("modell-ä", "modell-ä", "vllm")
    assert row["started_at"] <= row["first_byte_at"] <= row["first_token_at"] <= row["finished_at"]


def test_a_streamed_call(over: Site) -> None:
    over.script(Reply(content=TEXT))
    stream = over.openai(over.name).chat.completions.create(
        model="m", messages=say(TEXT), stream=True, stream_options={"include_usage": True}
    )
    assert streamed(stream) == TEXT
    (call,) = over.calls
    assert call.stream
    assert_same(over.rows(1)[0], call)


def test_agent_and_upstream_speak_the_same_http(over: Site) -> None:
    over.script(Reply(content="x"))
    over.openai(over.name).chat.completions.create(model="m", messages=say("hi"))
    version = "HTTP/2" if over.http2 else "HTTP/1.1"
    assert over.protocols == [version]
    assert over.calls[0].http_version == ("2" if over.http2 else "1.1")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_asynchronous_client(over: Site, stream: bool) -> None:
    over.script(Reply(content=TEXT))
    async with over.async_openai(over.name) as client:
        answer: Any = await client.chat.completions.create(model="m", messages=say("hi"), stream=stream)
        if stream:
            parts = [chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices]
            assert "".join(parts) == TEXT
        else:
            assert answer.choices[0].message.content == TEXT
    assert_same(over.rows(1)[0], over.calls[0])


@pytest.mark.parametrize("piece", [1, 2, 3])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_cut_into_small_pieces(over: Site, piece: int, stream: bool) -> None:
    short = "ä👋\n数"
    over.script(Reply(content=short, tool_calls=CALLS[:1], delivery=Delivery(piece=piece, crlf=piece == 2)))
    client = over.openai(over.name)
    if stream:
        with client.chat.completions.stream(model="m", messages=say("hi")) as events:
            message: Any = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(model="m", messages=say("hi")).choices[0].message
    assert message.content == short
    assert message.tool_calls[0].function.arguments == CALLS[0].arguments
    assert_same(over.rows(1)[0], over.calls[0])


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_and_what_follows_them(over: Site, stream: bool) -> None:
    """Two turns: the second continues the first, token by token, and refers to it."""

    def script(call: ChatCall) -> Reply:
        return Reply(content=TEXT, tool_calls=CALLS) if call.turn == 0 else Reply(content="Sonnig ☀️")

    over.script(script)
    client, messages = over.openai(over.name), say("Wetter in Zürich und 東京?")
    with client.chat.completions.stream(model="m", messages=messages, tools=TOOLS) as events:
        message = events.get_final_completion().choices[0].message
    made = [tool.model_dump(include={"id": True, "type": True, "function": {"name", "arguments"}})
            for tool in message.tool_calls or []]  # fmt: skip
    messages += [{"role": "assistant", "content": message.content, "tool_calls": made}]
    messages += [{"role": "tool", "tool_call_id": tool["id"], "content": "28 °C"} for tool in made]
    answer: Any = client.chat.completions.create(model="m", messages=messages, tools=TOOLS, stream=stream)
    assert (streamed(answer) if stream else answer.choices[0].message.content) == "Sonnig ☀️"
    first, second = over.rows(2)
    assert_same(first, over.calls[0])
    assert_same(second, over.calls[1])
    assert [name for _, name, _ in tool_calls(first["response"])] == ["wetter", "wetter"]
    assert second["parent_id"] == first["step_id"]
    assert (first["turn"], second["turn"]) == (0, 1)
    assert second["prompt_ids"][: len(first["prompt_ids"] + first["response_ids"])] == (
        first["prompt_ids"] + first["response_ids"]
    )
    assert second["tools"] == first["tools"]


@pytest.mark.parametrize("stream", [False, True])
def test_several_choices(over: Site, stream: bool) -> None:
    over.script(lambda call: Reply(content=f"Wahl {call.choice} 👋", tool_calls=CALLS[: call.choice]))
    answer: Any = over.openai(over.name).chat.completions.create(model="m", messages=say("hi"), n=3, stream=stream)
    if stream:
        for _ in answer:
            pass
    (call,) = over.calls
    rows = over.rows(3)
    for choice, row in enumerate(rows):
        assert_same(row, call, choice)
    assert len({row["call_id"] for row in rows}) == 1
    assert len({row["step_id"] for row in rows}) == 3


@pytest.mark.parametrize("stream", [False, True])
def test_compressed_answers(over: Site, stream: bool) -> None:
    """The server compresses although nobody said that it may: agent and capture both read it."""
    over.script(Reply(content=TEXT, delivery=Delivery(gzip=True)))
    answer: Any = over.openai(over.name).chat.completions.create(model="m", messages=say("hi"), stream=stream)
    assert (streamed(answer) if stream else answer.choices[0].message.content) == TEXT
    assert_same(over.rows(1)[0], over.calls[0])


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_stopped_at_its_length_limit(site: Site, stream: bool) -> None:
    site.script(Reply(content="a b c d e f g h"))
    answer: Any = site.openai(site.name).chat.completions.create(
        model="m", messages=say("hi"), max_tokens=3, stream=stream
    )
    if stream:
        assert len(streamed(answer)) < 15
    (row,) = site.rows(1)
    assert (row["status"], row["finish_reason"]) == ("truncated", "length")
    assert row["response_ids"] == site.calls[0].choices[0].response_ids
    assert len(row["logprobs"]) == 3


def test_a_route_without_an_engine_adds_nothing(site: Site) -> None:
    """The upstream gets the bytes that the agent sent; without token ids a step is kept as text, and says why."""
    site.script(Reply(content=TEXT))
    answer = site.http(site.name).post(
        f"{PLAIN}/chat/completions",
        content='{"model": "m",\n "messages": [{"role": "user",  "content": "grüß dich"}]}'.encode(),
    )
    (call,) = site.calls
    assert call.request == answer.request.content
    assert call.sent == answer.content
    (row,) = site.rows(1)
    assert (row["status"], texts(row["response"])) == ("ok", TEXT)
    assert (row["response_ids"], row["source"], row["trainable"]) == (None, None, False)
    assert row["untrainable_reason"] == "the engine gave no token ids"


def test_the_agent_gets_the_bytes_that_the_server_sent(over: Site) -> None:
    over.script(Reply(content=TEXT, tool_calls=CALLS, delivery=Delivery(piece=7)))
    answer = over.http(over.name).post(
        "https://api.openai.com/v1/chat/completions", json={"messages": say("hi"), "stream": True}
    )
    assert answer.content == over.calls[0].sent
    assert_same(over.rows(1)[0], over.calls[0])
