"""Real clients of OpenAI and Anthropic against the scripted server, recorded without a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import httpx2
import openai
import pytest
from tests.sdk.parsing import steps_of

from stepwell import sdk
from stepwell.errors import InvalidRecord, SettingsError
from stepwell.testing import ChatCall, Delivery, Records, Reply, ScriptedServer, recorded

ASK: Any = [{"role": "user", "content": "Grüße?"}]
CHAT: dict[str, Any] = {"model": "scripted", "messages": ASK}
MESSAGE: dict[str, Any] = {**CHAT, "max_tokens": 100}


def script(call: ChatCall) -> Reply:
    return Reply(content="Grüße 👋 zurück, und noch etwas mehr.")


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        yield server


@pytest.fixture
def records() -> Iterator[Records]:
    with recorded() as records:
        yield records


_opened: list[httpx2.Client] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def http(server: ScriptedServer) -> httpx2.Client:
    _opened.append(httpx2.Client(verify=server.client_context()))
    return _opened[-1]


def chat(server: ScriptedServer, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.base_url, api_key="sk-hush", http_client=http(server), **settings)


def claude(server: ScriptedServer) -> anthropic.Anthropic:
    base = server.base_url.removesuffix("/v1")
    return anthropic.Anthropic(base_url=base, api_key="sk-hush", http_client=http(server))


def text(step: sdk.Step) -> str:
    assert step.response is not None and step.status == "ok", step.untrainable_reason
    return "".join(part.get("text", "") for part in step.response["content"])


def test_every_call_is_an_exchange_of_the_block_around_it(server: ScriptedServer, records: Records) -> None:
    client = sdk.wrap(sdk.wrap(chat(server)))
    with sdk.trajectory("t", prompt="p", group="g", policy_version=3):
        answer = client.chat.completions.create(**CHAT)
    assert answer.choices[0].message.content == "Grüße 👋 zurück, und noch etwas mehr."
    (one,) = records.exchanges
    (step,) = steps_of(one)
    assert text(step) == answer.choices[0].message.content and step.response_id == answer.id
    assert (step.trajectory_id, step.prompt_id, step.group_id, step.policy_version) == ("t", "p", "g", 3)
    assert one["started_ns"] <= one["first_byte_ns"] <= one["finished_ns"] and one["dialect"] is None
    assert "hush" not in str(one)


def test_streams(server: ScriptedServer, records: Records) -> None:
    client, model = sdk.wrap(chat(server)), sdk.wrap(claude(server))
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(**CHAT, stream=True)
        if chunk.choices
    ]
    assert "".join(pieces) == "Grüße 👋 zurück, und noch etwas mehr."
    with client.responses.stream(model="scripted", input="Grüße?") as events:
        assert events.get_final_response().output_text == "".join(pieces)
    with model.messages.stream(**MESSAGE) as stream:
        assert stream.get_final_text() == "".join(pieces)
    assert model.messages.create(**MESSAGE).content[0].type == "text"
    assert [text(steps_of(one)[0]) for one in records.exchanges] == ["".join(pieces)] * 4
    assert [one["end"] for one in records.exchanges] == ["complete"] * 4


def test_raw_responses_and_lines(server: ScriptedServer, records: Records) -> None:
    client = sdk.wrap(chat(server))
    raw = client.chat.completions.with_raw_response.create(**CHAT)
    assert raw.http_response.status_code == 200 and raw.parse().choices
    with client.chat.completions.with_streaming_response.create(**CHAT) as streamed:
        assert any(streamed.iter_lines())
    client.with_options(timeout=7).chat.completions.create(**CHAT)
    client.models.with_raw_response  # noqa: B018 - what is no generation is not recorded
    assert len(records.exchanges) == 3 and all(text(steps_of(one)[0]) for one in records.exchanges)


async def test_async_clients_and_tasks(server: ScriptedServer, records: Records) -> None:
    async with (
        httpx2.AsyncClient(verify=server.client_context()) as one,
        httpx2.AsyncClient(verify=server.client_context()) as other,
    ):
        client = sdk.wrap(openai.AsyncOpenAI(base_url=server.base_url, api_key="k", http_client=one))
        base = server.base_url.removesuffix("/v1")
        model = sdk.wrap(anthropic.AsyncAnthropic(base_url=base, api_key="k", http_client=other))

        async def rollout(number: int) -> None:
            async with sdk.trajectory(f"t{number}"):
                await client.chat.completions.create(**CHAT)
                stream = await client.chat.completions.create(**CHAT, stream=True)
                assert [chunk async for chunk in stream]
                await model.messages.create(**MESSAGE)

        await asyncio.gather(*(rollout(number) for number in range(4)))
    found = [steps_of(one)[0] for one in await asyncio.to_thread(lambda: records.exchanges)]
    assert sorted(step.trajectory_id or "" for step in found) == sorted(["t0", "t1", "t2", "t3"] * 3)
    assert all(text(step) for step in found)


def test_each_attempt_is_one(records: Records) -> None:
    replies = iter([Reply(content="no", delivery=Delivery(status=500)), Reply(content="yes")])
    with ScriptedServer(lambda call: next(replies)) as server:
        client = sdk.wrap(chat(server, max_retries=1))
        assert client.chat.completions.create(**CHAT).choices[0].message.content == "yes"
    first, second = [steps_of(one)[0] for one in records.exchanges]
    assert (first.status, second.status) == ("error", "ok")
    assert ["x-stainless-retry-count", "1"] in records.exchanges[1]["request_headers"]


def test_hanging_up_in_the_middle_is_said(server: ScriptedServer, records: Records) -> None:
    client = sdk.wrap(chat(server))
    stream = client.chat.completions.create(**CHAT, stream=True)
    next(iter(stream))
    stream.close()
    assert steps_of(records.exchanges[0])[0].status == "client_disconnect"


def test_a_server_that_is_not_there(records: Records) -> None:
    client = sdk.wrap(openai.OpenAI(base_url="http://127.0.0.1:9/v1", api_key="k", max_retries=0))
    with pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(**CHAT)
    client.close()
    (one,) = records.exchanges
    assert (one["status"], one["end"]) == (None, "upstream_error") and "ConnectError" in one["error"]
    assert steps_of(one)[0].status == "error"


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_either_http_library_and_what_its_transport_has_read_already(library: Any, records: Records) -> None:
    def answer(request: Any) -> Any:
        return library.Response(200, json={"object": "chat.completion", "choices": []}, headers={"x-a": "b"})

    client = sdk.wrap(library.Client(transport=library.MockTransport(answer)))
    assert client.post("http://h/v1/chat/completions", json=CHAT).json()["object"] == "chat.completion"
    assert client.post("http://h/v1/embeddings", json={}).status_code == 200
    client.close()
    (one,) = records.exchanges
    assert (one["status"], one["end"]) == (200, "complete") and "chat.completion" in one["response_body"]


def test_azure_and_compressed_answers(records: Records) -> None:
    import gzip
    import json

    body = {
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}}],
    }

    class Compressed(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            content = iter([gzip.compress(json.dumps(body).encode())])
            return httpx2.Response(200, headers={"content-encoding": "gzip"}, content=content)

    client = sdk.wrap(
        openai.AzureOpenAI(
            azure_endpoint="https://x.openai.azure.com",
            api_version="2024-10-21",
            api_key="hush",
            http_client=httpx2.Client(transport=Compressed()),
        )
    )
    assert client.chat.completions.create(**CHAT).choices[0].message.content == "yes"
    (one,) = records.exchanges
    assert "response_body_b64" in one and one["url"].endswith("/chat/completions?api-version=2024-10-21")
    assert "hush" not in str(one)


def test_trouble_in_recording_never_reaches_the_caller(
    server: ScriptedServer, records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("oh")

    client = sdk.wrap(chat(server))
    monkeypatch.setattr("stepwell.sdk._calls.kept_headers", fail)
    for _ in range(2):
        assert client.chat.completions.create(**CHAT).choices
    assert sdk.status().unrecorded == 2 and caplog.text.count("was not recorded") == 1
    monkeypatch.setattr("stepwell.sdk._recording.step_fields", fail)
    assert client.chat.completions.create(**CHAT).choices
    assert sdk.status().unrecorded == 3
    assert records.exchanges == []


def test_what_cannot_be_read_or_followed_is_counted(
    records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The boundaries inside of the transport: nothing is lost that `status` does not know of."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        request.read()
        return httpx2.Response(200, json={"object": "chat.completion", "choices": []})

    def fail(*_: Any) -> None:
        raise KeyError("oh")

    with sdk.wrap(httpx2.Client(transport=httpx2.MockTransport(answer))) as client:
        piecemeal = iter([b'{"messages": []}'])
        assert client.post("http://h/v1/chat/completions", content=piecemeal).status_code == 200
        assert sdk.status().unrecorded == 1
        assert client.post("http://h/v1/files", content=iter([b"an upload"])).status_code == 200
        assert sdk.status().unrecorded == 1  # that is no call that becomes steps
        monkeypatch.setattr("stepwell.sdk._calls.Call.answered", fail)
        assert client.post("http://h/v1/chat/completions", json=CHAT).json()["choices"] == []
        assert sdk.status().unrecorded == 2
    assert records.exchanges == []
    assert [record.levelname for record in caplog.records] == ["ERROR"] and "RequestNotRead" in caplog.text


def test_an_address_that_is_none_is_said_when_wrapping(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={})

    before = sdk.use(None)
    monkeypatch.setenv("STEPWELL_URL", "nowhere")
    try:
        with httpx2.Client(transport=httpx2.MockTransport(answer)) as client:
            with pytest.raises(SettingsError):
                sdk.wrap(client)
            monkeypatch.delenv("STEPWELL_URL")
            sdk.wrap(client)
            sdk.use(None)
            monkeypatch.setenv("STEPWELL_URL", "nowhere")
            assert client.post("http://h/v1/responses", json={}).status_code == 200  # the caller's own call goes on
    finally:
        monkeypatch.delenv("STEPWELL_URL")
        sdk.use(before)


def test_what_is_no_client() -> None:
    for thing in (object(), "client", openai):
        with pytest.raises(InvalidRecord) as caught:
            sdk.wrap(thing)
        assert caught.value.field == "client"


def test_a_real_gateway_takes_it(server: ScriptedServer, gateway: Any, token: str) -> None:
    with sdk.Client(gateway.url, token) as submitting:
        client = submitting.wrap(chat(server))
        client.chat.completions.create(**CHAT)
        list(client.chat.completions.create(**CHAT, stream=True))
        assert submitting.flush().acknowledged == 2
    assert [record.kind for record in gateway.records()] == ["exchange.request", "exchange.response"] * 2
