"""OpenAI's SDK behind the proxy, with nothing configured but the environment: chat, Responses (on a socket too) and completions.

The scripted server is a vLLM there, so that token ids come along wherever that has them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from stepwell.testing import ChatCall, Delivery, LoggedCall, Reply, ToolCall

from .conftest import API_KEY, PLAIN, Row, Site, assert_broken_off, assert_same, say, texts, tool_calls

TEXT = "Grüße 👋🏽 an alle — 数据仓库, und noch ein Wort."
CALLS = [ToolCall("wetter", '{"ort":  "Zürich 🏔"}', "call_1"), ToolCall("wetter", '{"ort":"東京"}', "call_2")]
TOOLS: Any = [{"type": "function", "name": "wetter", "parameters": {"type": "object", "properties": {}}}]


@pytest.fixture
def client(agent: Site) -> Iterator[OpenAI]:
    with OpenAI(api_key=API_KEY, max_retries=0) as client:
        yield client


@pytest.fixture
async def plain(agent: Site) -> AsyncIterator[AsyncOpenAI]:
    """Of a host whose route adds nothing to a request: one that asks an engine for token ids takes no sockets.

    Asynchronous, since the other client reads and writes one TLS connection from two threads, which OpenSSL does not allow: it
    hangs once in a few hundred sockets, whoever serves them.
    """
    async with AsyncOpenAI(api_key=API_KEY, base_url=PLAIN, max_retries=0) as client:
        yield client


def usage(call: LoggedCall) -> dict[str, int]:
    prompt, generated = len(call.prompt_ids), len(call.choices[0].response_ids)
    return {"input_tokens": prompt, "output_tokens": generated, "total_tokens": prompt + generated}


def assert_responded(row: Row, call: LoggedCall) -> None:
    """A step of the Responses API is what was sampled, ids included; vLLM gives no logprobs there."""
    sampled = call.choices[0]
    parts = json.loads(row["response"])["content"]
    assert (row["dialect"], row["response_id"]) == ("openai.responses", call.call_id)
    assert (row["status"], row["finish_reason"]) == ("ok", "completed")
    assert texts(row["response"]) == (sampled.content or "")
    assert "".join(part["text"] for part in parts if part["type"] == "reasoning") == (sampled.reasoning or "")
    assert tool_calls(row["response"]) == [(made.id, made.name, made.arguments) for made in sampled.tool_calls]
    assert (row["prompt_ids"], row["response_ids"]) == (call.prompt_ids, sampled.response_ids)
    told = json.loads(row["usage"])
    assert {name: told[name] for name in usage(call)} == usage(call)


@pytest.mark.parametrize("stream", [False, True])
def test_chat(agent: Site, client: OpenAI, stream: bool) -> None:
    agent.script(Reply(TEXT, CALLS))
    answer: Any = client.chat.completions.create(model="m", messages=say("hallo"), stream=stream)
    if stream:
        assert "".join(c.choices[0].delta.content or "" for c in answer if c.choices) == TEXT
    else:
        assert answer.choices[0].message.content == TEXT
    assert_same(agent.rows(1)[0], agent.calls[0])


def test_a_response(agent: Site, client: OpenAI) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔"))
    answer = client.responses.create(model="m", input="hallo", instructions="Sei kurz.", tools=TOOLS)
    assert answer.output_text == TEXT
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call", "function_call"]
    assert answer.usage is not None
    (call,), (row,) = agent.calls, agent.rows(1)
    assert answer.usage.output_tokens == usage(call)["output_tokens"]
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert_responded(row, call)


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_a_stream(agent: Site, client: OpenAI, piece: int | None) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔", delivery=Delivery(piece=piece, chunk_tokens=2)))
    with client.responses.stream(model="m", input="hallo", tools=TOOLS) as stream:
        said = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        answer = stream.get_final_response()
    assert said == answer.output_text == TEXT
    assert [item.arguments for item in answer.output if item.type == "function_call"] == [c.arguments for c in CALLS]
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.stream
    assert_responded(row, call)


def test_a_response_that_continues_another(agent: Site, client: OpenAI) -> None:
    """The second request has only what is new: the server remembers the rest, and so does the step."""

    def script(call: ChatCall) -> Reply:
        assert call.dialect == "openai.responses"
        return Reply(TEXT, CALLS) if call.turn == 0 else Reply("Sonnig ☀️")

    agent.script(script)
    first = client.responses.create(model="m", input="Wetter?", tools=TOOLS)
    results: Any = [{"type": "function_call_output", "call_id": call.id, "output": "28 °C"} for call in CALLS]
    second = client.responses.create(model="m", input=results, tools=TOOLS, previous_response_id=first.id)
    assert second.output_text == "Sonnig ☀️"
    rows = agent.rows(2)
    assert [message["role"] for message in agent.calls[1].messages] == ["user", "assistant", "tool", "tool"]
    for row, call in zip(rows, agent.calls, strict=True):
        assert_responded(row, call)
    assert rows[1]["parent_id"] == rows[0]["step_id"]


def test_an_unknown_response_cannot_be_continued(agent: Site, client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.responses.create(model="m", input="weiter", previous_response_id="resp_nobodys")
    (row,) = agent.rows(1)
    assert (row["status"], row["trainable"]) == ("error", False)


async def test_turns_on_a_socket(agent: Site, plain: AsyncOpenAI) -> None:
    """A warm-up, a call that continues it, and one that continues that: two steps, the second the child of the first."""
    agent.script(lambda call: Reply(TEXT, CALLS) if call.turn == 0 else Reply("Sonnig ☀️"))
    results: Any = [{"type": "function_call_output", "call_id": call.id, "output": "28 °C"} for call in CALLS]
    async with plain.responses.connect() as socket:

        async def ask(**fields: Any) -> Any:
            create: Any = {"type": "response.create", "model": "m", "tools": TOOLS, **fields}
            await socket.send(create)
            return await anext(event.response async for event in socket if event.type == "response.completed")

        warm = await ask(input=[], instructions=None, generate=False)
        first = await ask(input=say("Wetter?"), previous_response_id=warm.id)
        second = await ask(input=results, previous_response_id=first.id)
    assert (first.output_text, second.output_text) == (TEXT, "Sonnig ☀️")
    rows = agent.rows(2)
    warmed, *calls = agent.calls
    assert warmed.choices == []
    assert [message["role"] for message in calls[1].messages] == ["user", "assistant", "tool", "tool"]
    for row, call, answer in zip(rows, calls, (first, second), strict=True):
        assert (row["status"], row["response_id"]) == ("ok", answer.id)
        assert texts(row["response"]) == call.choices[0].content
        assert len(tool_calls(row["response"])) == len(call.choices[0].tool_calls)
    assert rows[1]["parent_id"] == rows[0]["step_id"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion(agent: Site, client: OpenAI, stream: bool) -> None:
    agent.script(Reply(TEXT))
    answer: Any = client.completions.create(model="m", prompt="Es war einmal", max_tokens=500, stream=stream)
    assert ("".join(c.choices[0].text for c in answer) if stream else answer.choices[0].text) == TEXT
    (call,), (row,) = agent.calls, agent.rows(1)
    assert (call.dialect, row["dialect"]) == ("openai.completions", "openai.completions")
    assert_same(row, call)


def test_the_client_hangs_up_in_the_middle_of_a_response(agent: Site, client: OpenAI) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(hold=threading.Event(), hold_after=6)))
    with client.responses.create(model="m", input="hallo", stream=True) as stream:
        seen = next(event.delta for event in stream if event.type == "response.output_text.delta")
        client.close()
    (call,) = agent.wait_for_calls(1)
    (row,) = agent.rows(1)
    assert_broken_off(row, call, "client_disconnect")
    assert texts(row["response"]).startswith(seen)


async def test_the_client_hangs_up_in_the_middle_of_a_socket(agent: Site, plain: AsyncOpenAI) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(hold=threading.Event(), hold_after=6)))
    async with plain.responses.connect() as socket:
        await socket.send({"type": "response.create", "model": "m", "input": "hallo"})
        seen = await anext(event.delta async for event in socket if event.type == "response.output_text.delta")
    (call,) = agent.wait_for_calls(1)
    (row,) = agent.rows(1)
    assert_broken_off(row, call, "client_disconnect")
    assert texts(row["response"]).startswith(seen)


@pytest.mark.parametrize("api", ["responses", "completions"])
def test_the_upstream_breaks_off_in_the_middle(agent: Site, client: OpenAI, api: str) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(fail_after=3000 if api == "responses" else 1500, chunk_tokens=1)))
    with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
        if api == "responses":
            list(client.responses.create(model="m", input="hallo", stream=True))
        else:
            list(client.completions.create(model="m", prompt="hallo", stream=True))
    (call,) = agent.wait_for_calls(1)
    assert_broken_off(agent.rows(1)[0], call, "truncated")
