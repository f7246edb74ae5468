"""Ollama's SDK behind the proxy, with nothing configured but the environment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import pytest

from stepwell.testing import ChatCall, Delivery, LoggedCall, Reply, ToolCall

from .conftest import Site, assert_broken_off, assert_told, say, texts

TEXT = "Grüße 👋🏽 an alle — 数据仓库, und noch ein Wort."
CALLS = [ToolCall("wetter", '{"ort":  "Zürich 🏔"}', "call_1"), ToolCall("wetter", '{"ort":"東京"}', "call_2")]
TOOLS: Any = [{"type": "function", "function": {"name": "wetter", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture
def client(agent: Site) -> Iterator[ollama.Client]:
    client = ollama.Client("https://ollama.com", headers={"authorization": "Bearer integration"})
    yield client
    client._client.close()


def usage(call: LoggedCall) -> dict[str, int]:
    return {"prompt_eval_count": len(call.prompt_ids), "eval_count": len(call.choices[0].response_ids)}


def test_a_chat(agent: Site, client: ollama.Client) -> None:
    agent.script(Reply(TEXT, reasoning="Hm, 🤔"))
    answer = client.chat("llama-x", say("hallo"), think=True)
    assert (answer.message.content, answer.message.thinking, answer.done_reason) == (TEXT, "Hm, 🤔", "stop")
    (call,), (row,) = agent.calls, agent.rows(1)
    assert_told(row, call, "stop", usage(call))
    assert (row["model_asked"], row["model"]) == ("llama-x", "llama-x")


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_a_stream(agent: Site, client: ollama.Client, piece: int | None) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔", delivery=Delivery(piece=piece, chunk_tokens=2)))
    chunks = list(client.chat("llama-x", say("hallo"), tools=TOOLS, stream=True))
    assert "".join(chunk.message.content or "" for chunk in chunks) == TEXT
    made = [call.function.arguments for chunk in chunks for call in chunk.message.tool_calls or ()]
    assert made == [{"ort": "Zürich 🏔"}, {"ort": "東京"}]
    assert chunks[-1].done
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.stream
    assert_told(row, call, "stop", usage(call))


def test_tools_and_what_follows_them(agent: Site, client: ollama.Client) -> None:
    def script(call: ChatCall) -> Reply:
        assert call.dialect == "ollama.chat"
        return Reply(TEXT, CALLS) if call.turn == 0 else Reply("Sonnig ☀️")

    agent.script(script)
    messages = say("Wetter?")
    first = client.chat("llama-x", messages, tools=TOOLS)
    messages += [first.message, *({"role": "tool", "tool_name": "wetter", "content": "28 °C"} for _ in CALLS)]
    assert client.chat("llama-x", messages, tools=TOOLS).message.content == "Sonnig ☀️"
    rows = agent.rows(2)
    assert [message["role"] for message in agent.calls[1].messages] == ["user", "assistant", "tool", "tool"]
    for row, call in zip(rows, agent.calls, strict=True):
        assert_told(row, call, "stop", usage(call))
    assert rows[1]["parent_id"] == rows[0]["step_id"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt(agent: Site, client: ollama.Client, stream: bool) -> None:
    agent.script(Reply(TEXT))
    generate: Any = client.generate
    answer = generate("llama-x", "hallo", system="Sei kurz.", stream=stream)
    assert ("".join(chunk.response for chunk in answer) if stream else answer.response) == TEXT
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.dialect == "ollama.generate"
    assert_told(row, call, "stop", usage(call))


def test_an_error_status(agent: Site, client: ollama.Client) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(status=500)))
    with pytest.raises(ollama.ResponseError) as raised:
        client.chat("llama-x", say("hallo"))
    assert raised.value.error == "the script answered with status 500"
    (row,) = agent.rows(1)
    assert (row["status"], row["trainable"]) == ("error", False)


def test_the_client_hangs_up_in_the_middle(agent: Site, client: ollama.Client) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(hold=threading.Event(), hold_after=3)))
    stream = client.chat("llama-x", say("hallo"), stream=True)
    seen = next(iter(stream)).message.content
    client._client.close()
    (call,) = agent.wait_for_calls(1)
    (row,) = agent.rows(1)
    assert_broken_off(row, call, "client_disconnect")
    assert texts(row["response"]).startswith(seen or "?")


def test_the_upstream_breaks_off_in_the_middle(agent: Site, client: ollama.Client) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(fail_after=900, chunk_tokens=1)))
    with pytest.raises(httpx.TransportError):
        list(client.chat("llama-x", say("hallo"), stream=True))
    (call,) = agent.wait_for_calls(1)
    assert_broken_off(agent.rows(1)[0], call, "truncated")
