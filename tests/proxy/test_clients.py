"""OpenAI's own client on its WebSocket, through the proxy and by a base URL."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import wsproto.events as ws
from openai import AsyncOpenAI

from stepwell.exchange import parse

from .conftest import RunningProxy, StartProxy
from .sockets import Peer, serving

pytest.importorskip("websockets", reason="what the client opens WebSockets with is not installed")


def _model(peer: Peer) -> None:
    """Answers turns until the client closes, with permessage-deflate as `websockets` asks for it."""
    for number in range(2):
        asked = json.loads(peer.text())
        text = {"type": "output_text", "text": f"{asked['input']}!", "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
        response = {"id": f"resp_{number}", "object": "response", "model": asked["model"], "output": [item]}
        peer.say(json.dumps({"type": "response.created", "sequence_number": 0, "response": {**response, "output": []}}))
        peer.say(
            json.dumps(
                {"type": "response.completed", "sequence_number": 1, "response": {**response, "status": "completed"}}
            )
        )
    peer.hear(ws.CloseConnection)


async def _talk(client: AsyncOpenAI) -> list[str]:
    said = []
    async with client, client.responses.connect() as connection:
        for word in ("Grüße", "👋"):
            await connection.response.create(model="m", input=word)
            async for event in connection:
                if event.type == "response.completed":
                    said.append(event.response.output_text)
                    break
    return said


@pytest.mark.parametrize("way", ["proxy", "base URL"])
def test_a_conversation(
    start_proxy: StartProxy, upstream_ca: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    with serving(_model, upstream_ca[1], deflate=True) as port:
        url = f"https://localhost:{port}"
        proxy: RunningProxy = start_proxy("localhost", base_urls={"openai": url})
        if way == "proxy":
            monkeypatch.setenv("https_proxy", proxy.url("run-1"))
            monkeypatch.delenv("no_proxy", raising=False)
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.setenv("SSL_CERT_FILE", str(proxy.home / "ca" / "mitmproxy-ca-cert.pem"))
            base = f"{url}/v1"
        else:
            base = f"{proxy.anonymous}/t/run-1/openai/v1"
        # Not the synchronous client, which reads and writes one TLS connection from two threads and hangs now and then.
        client = AsyncOpenAI(api_key="sk-SECRET", base_url=base, max_retries=0, timeout=30)
        assert asyncio.run(_talk(client)) == ["Grüße!", "👋!"]
    exchanges = proxy.exchanges(port, 2)
    assert [exchange.trajectory_id for exchange in exchanges] == ["run-1"] * 2
    assert {exchange.request.url for exchange in exchanges} == {f"{url}/v1/responses"}
    steps = [step for exchange in exchanges for step in parse(exchange)]
    assert [(step.status, step.response_id) for step in steps] == [("ok", "resp_0"), ("ok", "resp_1")]
    assert b"SECRET" not in proxy.spool_bytes()
