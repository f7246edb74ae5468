"""The clients of models that a cloud serves: other hosts, paths, signatures and bodies, recorded like the plain ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
from anthropic.lib.bedrock import AnthropicBedrock, AsyncAnthropicBedrock
from anthropic.lib.vertex import AnthropicVertex
from tests.sdk.parsing import steps_of

from stepwell import sdk
from stepwell.testing import ChatCall, Records, Reply, ScriptedServer, recorded

SAID = "Grüße 👋 zurück, und noch etwas mehr."
ASK: Any = [{"role": "user", "content": "Grüße?"}]
CLAUDE = "anthropic.claude-x-v1:0"
HUSH = "hush-hush-hush"


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    def script(call: ChatCall) -> Reply:
        return Reply(content=SAID)

    with ScriptedServer(script) as server:
        yield server


@pytest.fixture
def records() -> Iterator[Records]:
    with recorded() as records:
        yield records


class OnVertex(httpx2.BaseTransport):
    """What Vertex AI does: the model is in the path, the rest is Anthropic's own API."""

    def __init__(self, server: ScriptedServer) -> None:
        self._inner = httpx2.HTTPTransport(verify=server.client_context())

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        model, _, action = request.url.path.rpartition("/")[2].partition(":")
        assert action in ("rawPredict", "streamRawPredict") and request.headers["authorization"] == f"Bearer {HUSH}"
        body = {**json.loads(request.content), "model": model}
        asked = httpx2.Request("POST", request.url.copy_with(path="/v1/messages"), json=body)
        return self._inner.handle_request(asked)

    def close(self) -> None:
        self._inner.close()


def bedrock(server: ScriptedServer, http: httpx2.Client) -> AnthropicBedrock:
    keys: dict[str, Any] = {"aws_access_key": "AKIAMADEUP", "aws_secret_key": HUSH, "aws_session_token": HUSH}
    base = server.base_url.removesuffix("/v1")
    return AnthropicBedrock(**keys, aws_region="us-east-1", base_url=base, http_client=http)


def vertex(server: ScriptedServer, http: httpx2.Client) -> AnthropicVertex:
    place: dict[str, Any] = {"project_id": "p", "region": "us-east5", "base_url": server.base_url}
    return AnthropicVertex(**place, access_token=HUSH, http_client=http)


def azure(server: ScriptedServer, http: httpx2.Client) -> openai.AzureOpenAI:
    base = server.base_url.removesuffix("/v1")
    return openai.AzureOpenAI(azure_endpoint=base, api_key=HUSH, api_version="2025-01-01", http_client=http)


def claude(client: Any, model: str) -> tuple[str, str]:
    """A whole answer and a streamed one."""
    whole = client.messages.create(model=model, max_tokens=100, messages=ASK)
    with client.messages.stream(model=model, max_tokens=100, messages=ASK) as stream:
        return whole.content[0].text, stream.get_final_text()


def gpt(client: Any, model: str) -> tuple[str, str]:
    whole = client.chat.completions.create(model=model, messages=ASK)
    chunks = client.chat.completions.create(model=model, messages=ASK, stream=True)
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    return whole.choices[0].message.content, streamed


@pytest.mark.parametrize(
    ("make", "ask", "model", "dialect"),
    [
        (bedrock, claude, CLAUDE, "bedrock.invoke"),
        (vertex, claude, "claude-x@20250101", "anthropic.messages"),
        (azure, gpt, "the-deployment", "openai.chat"),
    ],
)
def test_both_kinds_of_answers(
    server: ScriptedServer,
    records: Records,
    make: Callable[[ScriptedServer, httpx2.Client], Any],
    ask: Callable[[Any, str], tuple[str, str]],
    model: str,
    dialect: str,
) -> None:
    transport = OnVertex(server) if make is vertex else None
    with httpx2.Client(verify=server.client_context(), transport=transport) as http:
        client = sdk.wrap(make(server, http))
        with sdk.trajectory("t"):
            assert ask(client, model) == (SAID, SAID)
    steps = [step for one in records.exchanges for step in steps_of(one)]
    assert len(steps) == 2
    for step in steps:
        assert step.response is not None and step.response["content"] == [{"type": "text", "text": SAID}]
        assert (step.dialect, step.status, step.model_asked, step.trajectory_id) == (dialect, "ok", model, "t")
        assert step.messages is not None and step.messages[-1]["role"] == "user"
    assert HUSH not in str(records.exchanges) and "AKIAMADEUP" not in str(records.exchanges)


def test_azures_responses(server: ScriptedServer, records: Records) -> None:
    with httpx2.Client(verify=server.client_context()) as http:
        client = sdk.wrap(azure(server, http))
        assert client.responses.create(model="the-deployment", input="Grüße?").output_text == SAID
    (one,) = records.exchanges
    (step,) = steps_of(one)
    assert (step.dialect, step.status) == ("openai.responses", "ok")


async def test_async_clients(server: ScriptedServer, records: Records) -> None:
    base = server.base_url.removesuffix("/v1")
    async with (
        httpx2.AsyncClient(verify=server.client_context()) as one,
        httpx2.AsyncClient(verify=server.client_context()) as other,
    ):
        keys: dict[str, Any] = {"aws_access_key": "AKIAMADEUP", "aws_secret_key": HUSH, "aws_region": "us-east-1"}
        model = sdk.wrap(AsyncAnthropicBedrock(**keys, base_url=base, http_client=one))
        assert (await model.messages.create(model=CLAUDE, max_tokens=100, messages=ASK)).content
        client = sdk.wrap(
            openai.AsyncAzureOpenAI(azure_endpoint=base, api_key=HUSH, api_version="2025-01-01", http_client=other)
        )
        assert (await client.chat.completions.create(model="d", messages=ASK)).choices
    steps = [step for sent in records.exchanges for step in steps_of(sent)]
    assert [(step.dialect, step.status) for step in steps] == [("bedrock.invoke", "ok"), ("openai.chat", "ok")]
