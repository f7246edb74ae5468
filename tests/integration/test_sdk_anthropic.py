"""Anthropic's SDK behind the proxy, with nothing configured but the environment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import Anthropic

from stepwell.testing import ChatCall, Delivery, LoggedCall, Reply, ToolCall

from .conftest import Site, assert_broken_off, assert_told, say, texts

TEXT = "Grüße 👋🏽 an alle — 数据仓库, und noch ein Wort."
CALLS = [ToolCall("wetter", '{"ort":  "Zürich 🏔"}', "toolu_1"), ToolCall("wetter", '{"ort":"東京"}', "toolu_2")]
TOOLS: Any = [{"name": "wetter", "description": "☀️?", "input_schema": {"type": "object", "properties": {}}}]


@pytest.fixture
def client(agent: Site) -> Iterator[Anthropic]:
    with Anthropic(api_key="sk-ant-integration", max_retries=0) as client:
        yield client


def usage(call: LoggedCall) -> dict[str, int]:
    return {"input_tokens": len(call.prompt_ids), "output_tokens": len(call.choices[0].response_ids)}


def test_a_message(agent: Site, client: Anthropic) -> None:
    agent.script(Reply(TEXT, reasoning="Hm, 🤔"))
    answer = client.messages.create(model="claude-x", max_tokens=500, system="Sei kurz.", messages=say("hallo"))
    assert [block.type for block in answer.content] == ["thinking", "text"]
    assert answer.content[1].text == TEXT  # type: ignore[union-attr]
    assert answer.stop_reason == "end_turn"
    (call,), (row,) = agent.calls, agent.rows(1)
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert_told(row, call, "end_turn", usage(call))
    assert (row["response_id"], row["model_asked"], row["model"]) == (answer.id, "claude-x", "claude-x")
    assert answer.usage.output_tokens == usage(call)["output_tokens"]


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_a_stream(agent: Site, client: Anthropic, piece: int | None) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔", delivery=Delivery(piece=piece, chunk_tokens=2)))
    with client.messages.stream(model="claude-x", max_tokens=500, messages=say("hallo"), tools=TOOLS) as stream:
        assert "".join(stream.text_stream) == TEXT
        answer = stream.get_final_message()
    assert [block.input for block in answer.content if block.type == "tool_use"] == [
        {"ort": "Zürich 🏔"},
        {"ort": "東京"},
    ]
    assert answer.stop_reason == "tool_use"
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.stream
    assert_told(row, call, "tool_use", usage(call))


def test_tools_and_what_follows_them(agent: Site, client: Anthropic) -> None:
    def script(call: ChatCall) -> Reply:
        assert call.dialect == "anthropic.messages"
        return Reply(TEXT, CALLS) if call.turn == 0 else Reply("Sonnig ☀️")

    agent.script(script)
    messages = say("Wetter?")
    first = client.messages.create(model="claude-x", max_tokens=500, messages=messages, tools=TOOLS)
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": "28 °C"}
        for block in first.content
        if block.type == "tool_use"
    ]
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    second = client.messages.create(model="claude-x", max_tokens=500, messages=messages, tools=TOOLS)
    assert second.content[0].text == "Sonnig ☀️"  # type: ignore[union-attr]
    rows = agent.rows(2)
    assert [message["role"] for message in agent.calls[1].messages] == ["user", "assistant", "tool", "tool"]
    for row, call, reason in zip(rows, agent.calls, ("tool_use", "end_turn"), strict=True):
        assert_told(row, call, reason, usage(call))
    assert rows[1]["parent_id"] == rows[0]["step_id"]


def test_an_answer_stopped_at_its_length_limit(agent: Site, client: Anthropic) -> None:
    agent.script(Reply("a b c d e f g"))
    answer = client.messages.create(model="claude-x", max_tokens=3, messages=say("hallo"))
    assert answer.stop_reason == "max_tokens"
    (row,) = agent.rows(1)
    assert (row["status"], row["finish_reason"]) == ("truncated", "max_tokens")


@pytest.mark.parametrize(("status", "error"), [(429, anthropic.RateLimitError), (529, anthropic.InternalServerError)])
def test_an_error_status(agent: Site, client: Anthropic, status: int, error: type[anthropic.APIStatusError]) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(status=status)))
    with pytest.raises(error):
        client.messages.create(model="claude-x", max_tokens=500, messages=say("hallo"))
    (row,) = agent.rows(1)
    assert (row["status"], row["trainable"]) == ("error", False)


def test_the_client_hangs_up_in_the_middle(agent: Site, client: Anthropic) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(hold=threading.Event(), hold_after=6)))
    with client.messages.stream(model="claude-x", max_tokens=500, messages=say("hallo")) as stream:
        seen = next(iter(stream.text_stream))
        client.close()
    (call,) = agent.wait_for_calls(1)
    (row,) = agent.rows(1)
    assert_broken_off(row, call, "client_disconnect")
    assert texts(row["response"]).startswith(seen)


def test_the_upstream_breaks_off_in_the_middle(agent: Site, client: Anthropic) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(fail_after=900, chunk_tokens=1)))
    with (
        pytest.raises((anthropic.APIConnectionError, httpx2.TransportError)),
        client.messages.stream(model="claude-x", max_tokens=500, messages=say("hallo")) as stream,
    ):
        stream.until_done()
    (call,) = agent.wait_for_calls(1)
    assert_broken_off(agent.rows(1)[0], call, "truncated")
