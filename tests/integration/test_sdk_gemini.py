"""google-genai behind the proxy, with nothing configured but the environment."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import httpx2
import pytest
from google.genai import Client, errors, types

from stepwell.testing import ChatCall, Delivery, LoggedCall, Reply, ToolCall

from .conftest import Site, assert_broken_off, assert_told, texts, tool_calls

TEXT = "Grüße 👋🏽 an alle — 数据仓库, und noch ein Wort."
CALLS = [ToolCall("wetter", '{"ort":  "Zürich 🏔"}', "call_1"), ToolCall("wetter", '{"ort":"東京"}', "call_2")]
MODEL = "gemini-x"
CONFIG = types.GenerateContentConfig(
    system_instruction="Sei kurz.",
    tools=[
        types.Tool(
            function_declarations=[
                types.FunctionDeclaration(name="wetter", description="☀️?", parameters_json_schema={"type": "object"})
            ]
        )
    ],
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)


@pytest.fixture
def client(agent: Site) -> Iterator[Client]:
    with Client(api_key="AIza-integration") as client:
        yield client


def usage(call: LoggedCall) -> dict[str, int]:
    prompt, generated = len(call.prompt_ids), len(call.choices[0].response_ids)
    return {"promptTokenCount": prompt, "candidatesTokenCount": generated, "totalTokenCount": prompt + generated}


def test_generate_content(agent: Site, client: Client) -> None:
    agent.script(Reply(TEXT, reasoning="Hm, 🤔"))
    answer = client.models.generate_content(model=MODEL, contents="hallo", config=CONFIG)
    assert answer.text == TEXT
    assert answer.candidates is not None
    assert answer.candidates[0].finish_reason == types.FinishReason.STOP
    (call,), (row,) = agent.calls, agent.rows(1)
    assert [message["role"] for message in call.messages] == ["system", "user"]
    assert_told(row, call, "STOP", usage(call))
    assert (row["response_id"], row["model_asked"], row["model"]) == (answer.response_id, MODEL, MODEL)


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_a_stream(agent: Site, client: Client, piece: int | None) -> None:
    agent.script(Reply(TEXT, CALLS, "Hm, 🤔", delivery=Delivery(piece=piece, chunk_tokens=2)))
    parts = [
        part
        for chunk in client.models.generate_content_stream(model=MODEL, contents="hallo", config=CONFIG)
        for candidate in chunk.candidates or []
        for part in (candidate.content and candidate.content.parts) or []
    ]
    assert "".join(part.text or "" for part in parts if not part.thought) == TEXT
    made = [part.function_call for part in parts if part.function_call]
    assert [(call.id, call.args) for call in made] == [("call_1", {"ort": "Zürich 🏔"}), ("call_2", {"ort": "東京"})]
    (call,), (row,) = agent.calls, agent.rows(1)
    assert call.stream
    assert_told(row, call, "STOP", usage(call))


def test_the_calls_of_a_chat_and_what_follows_them(agent: Site, client: Client) -> None:
    def script(call: ChatCall) -> Reply:
        assert (call.dialect, call.model) == ("gemini", MODEL)
        return Reply(TEXT, CALLS) if call.turn == 0 else Reply("Sonnig ☀️")

    agent.script(script)
    chat = client.chats.create(model=MODEL, config=CONFIG)
    chat.send_message("Wetter?")
    results = [
        types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"grad": 28}))
        for call in CALLS
    ]
    assert chat.send_message(results).text == "Sonnig ☀️"
    first, second = agent.rows(2)
    assert [message["role"] for message in agent.calls[1].messages] == ["system", "user", "assistant", "tool", "tool"]
    assert_told(first, agent.calls[0], "STOP", usage(agent.calls[0]))
    assert_told(second, agent.calls[1], "STOP", usage(agent.calls[1]))
    assert [json.loads(arguments) for *_, arguments in tool_calls(first["response"])] == [
        {"ort": "Zürich 🏔"},
        {"ort": "東京"},
    ]
    assert second["parent_id"] == first["step_id"]


def test_an_error_status(agent: Site, client: Client) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(status=429)))
    with pytest.raises(errors.ClientError) as raised:
        client.models.generate_content(model=MODEL, contents="hallo")
    assert (raised.value.code, raised.value.status) == (429, "RESOURCE_EXHAUSTED")
    (row,) = agent.rows(1)
    assert (row["status"], row["trainable"]) == ("error", False)


def test_the_client_hangs_up_in_the_middle(agent: Site, client: Client) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(hold=threading.Event(), hold_after=3)))
    stream = client.models.generate_content_stream(model=MODEL, contents="hallo")
    seen = next(iter(stream)).text
    client.close()
    (call,) = agent.wait_for_calls(1)
    (row,) = agent.rows(1)
    assert_broken_off(row, call, "client_disconnect")
    assert texts(row["response"]).startswith(seen or "?")


def test_the_upstream_breaks_off_in_the_middle(agent: Site, client: Client) -> None:
    agent.script(Reply(TEXT, delivery=Delivery(fail_after=900, chunk_tokens=1)))
    with pytest.raises((httpx2.TransportError, errors.APIError)):
        list(client.models.generate_content_stream(model=MODEL, contents="hallo"))
    (call,) = agent.wait_for_calls(1)
    assert_broken_off(agent.rows(1)[0], call, "truncated")
