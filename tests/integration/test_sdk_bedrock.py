"""boto3's bedrock-runtime behind the proxy, with nothing configured but the environment and AWS credentials."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import ProtocolError

from stepwell.testing import ChatCall, Delivery, LoggedCall, Reply, ToolCall

from .conftest import Site, assert_broken_off, assert_told, say, texts

TEXT = "Grüße 👋🏽 an alle — 数据仓库, und noch ein Wort."
CALLS = [ToolCall("wetter", '{"ort":  "Zürich 🏔"}', "tooluse_1"), ToolCall("wetter", '{"ort":"東京"}', "tooluse_2")]
MODEL = "anthropic.claude-x-v1:0"
TOOLS = {"tools": [{"toolSpec": {"name": "wetter", "inputSchema": {"json": {"type": "object"}}}}]}
HELLO = [{"role": "user", "content": [{"text": "hallo"}]}]


@pytest.fixture
def client(agent: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAINTEGRATION")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "integration")
    config = Config(retries={"total_max_attempts": 1})
    client = boto3.client("bedrock-runtime", region_name="us-east-1", config=config)
    yield client
    client.close()


def usage(call: LoggedCall) -> dict[str, int]:
    prompt, generated = len(call.prompt_ids), len(call.choices[0].response_ids)
    return {"inputTokens": prompt, "outputTokens": generated, "totalTokens": prompt + generated}


def anthropic_usage(call: LoggedCall) -> dict[str, int]:
    return {"input_tokens": len(call.prompt_ids), "output_tokens": len(call.choices[0].response_ids)}


def test_converse(agent: Site, client: Any) -> None:
    agent.script(Reply(TEXT, reasoning="Hm, 🤔"))
    answer = client.converse(modelId=MODEL, messages=HELLO, system=[{"text": "Sei kurz."}])
    thought, text = answer["output"]["message"]["content"]
    assert thought["reasoningContent"]["reasoningText"]["text"] == "Hm, 🤔"
    assert (text["text"], answer["stopReason"]) == (TEXT, "end_turn")
    (call,), (row,) = agent.calls, agent.rows(1)
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert answer["usage"] == usage(call)
    assert_told(row, call, "end_turn", usage(call))
    assert (row["response_id"], row["model_asked"]) == (call.call_id, MODEL)


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_converse_stream(agent: Site, client: Any, piece: int | None) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔", delivery=Delivery(piece=piece, chunk_tokens=2)))
    events = list(client.converse_stream(modelId=MODEL, messages=HELLO, toolConfig=TOOLS)["stream"])
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    assert "".join(delta.get("text", "") for delta in deltas) == TEXT
    assert "".join(delta["toolUse"]["input"] for delta in deltas if "toolUse" in delta) == "".join(
        call.arguments for call in CALLS
    )
    assert events[-2]["messageStop"] == {"stopReason": "tool_use"}
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.stream
    assert events[-1]["metadata"]["usage"] == usage(call)
    assert_told(row, call, "tool_use", usage(call))


def test_tools_and_what_follows_them(agent: Site, client: Any) -> None:
    def script(call: ChatCall) -> Reply:
        assert (call.dialect, call.model) == ("bedrock.converse", MODEL)
        return Reply(TEXT, CALLS) if call.turn == 0 else Reply("Sonnig ☀️")

    agent.script(script)
    first = client.converse(modelId=MODEL, messages=HELLO, toolConfig=TOOLS)
    results = [{"toolResult": {"toolUseId": call.id, "content": [{"json": {"grad": 28}}]}} for call in CALLS]
    messages = [*HELLO, first["output"]["message"], {"role": "user", "content": results}]
    second = client.converse(modelId=MODEL, messages=messages, toolConfig=TOOLS)
    assert second["output"]["message"]["content"] == [{"text": "Sonnig ☀️"}]
    rows = agent.rows(2)
    assert [message["role"] for message in agent.calls[1].messages] == ["user", "assistant", "tool", "tool"]
    for row, call, reason in zip(rows, agent.calls, ("tool_use", "end_turn"), strict=True):
        assert_told(row, call, reason, usage(call))
    assert rows[1]["parent_id"] == rows[0]["step_id"]


def anthropic_body() -> str:
    return json.dumps({"anthropic_version": "bedrock-2023-05-31", "max_tokens": 500, "messages": say("hallo")})


def test_invoke_model(agent: Site, client: Any) -> None:
    agent.script(Reply(TEXT, CALLS))
    answer = client.invoke_model(modelId=MODEL, body=anthropic_body())
    message = json.loads(answer["body"].read())
    assert (message["content"][0]["text"], message["stop_reason"]) == (TEXT, "tool_use")
    (call,), (row,) = agent.calls, agent.rows(1)
    assert (call.dialect, call.model) == ("bedrock.invoke", MODEL)
    assert_told(row, call, "tool_use", anthropic_usage(call))
    assert row["model_asked"] == MODEL


def test_invoke_model_with_response_stream(agent: Site, client: Any) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔"))
    stream = client.invoke_model_with_response_stream(modelId=MODEL, body=anthropic_body())["body"]
    events = [json.loads(event["chunk"]["bytes"]) for event in stream]
    assert "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta") == TEXT
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.stream
    assert_told(row, call, "tool_use", anthropic_usage(call))


@pytest.mark.parametrize("status", [429, 500])
def test_an_error_status(agent: Site, client: Any, status: int) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(status=status)))
    with pytest.raises(ClientError) as raised:
        client.converse(modelId=MODEL, messages=HELLO)
    named = {429: "ThrottlingException", 500: "InternalServerException"}[status]
    assert raised.value.response["Error"]["Code"] == named
    (row,) = agent.rows(1)
    assert (row["status"], row["trainable"]) == ("error", False)


def test_the_client_hangs_up_in_the_middle(agent: Site, client: Any) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(hold=threading.Event(), hold_after=4)))
    stream = client.converse_stream(modelId=MODEL, messages=HELLO)["stream"]
    seen = next(event["contentBlockDelta"]["delta"]["text"] for event in stream if "contentBlockDelta" in event)
    stream.close()
    (call,) = agent.wait_for_calls(1)
    (row,) = agent.rows(1)
    assert_broken_off(row, call, "client_disconnect")
    assert texts(row["response"]).startswith(seen)


@pytest.mark.parametrize("invoke", [False, True])
def test_the_upstream_breaks_off_in_the_middle(agent: Site, client: Any, invoke: bool) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(fail_after=2400 if invoke else 900, chunk_tokens=1)))
    with pytest.raises((BotoCoreError, ProtocolError)):
        if invoke:
            list(client.invoke_model_with_response_stream(modelId=MODEL, body=anthropic_body())["body"])
        else:
            list(client.converse_stream(modelId=MODEL, messages=HELLO)["stream"])
    (call,) = agent.wait_for_calls(1)
    assert_broken_off(agent.rows(1)[0], call, "truncated")
