"""Asks the scripted application in any of its dialects, without a socket, and hands what it answered to the parsers of capture."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httpx2

from stepwell.exchange import Exchange, Request, Response, parse
from stepwell.sdk.records import Step
from stepwell.testing import LoggedCall, Reply, Script, ScriptedApp

_CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
_MESSAGES = {"messages": [{"role": "user", "content": "hi"}]}
_BLOCKS = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
_ANTHROPIC = {**_MESSAGES, "max_tokens": 4000}
_INVOKE = {**_ANTHROPIC, "anthropic_version": "bedrock-2023-05-31"}


@dataclass(frozen=True)
class Way:
    """A path to ask at, and a body that says hi."""

    dialect: str
    path: str
    body: dict[str, Any]


PLAIN = [
    Way("openai.chat", "/v1/chat/completions", _MESSAGES),
    Way("openai.responses", "/v1/responses", {"input": "hi"}),
    Way("openai.completions", "/v1/completions", {"prompt": "hi"}),
    Way("anthropic.messages", "/v1/messages", _ANTHROPIC),
    Way("gemini", "/v1beta/models/m:generateContent", _CONTENTS),
    Way("ollama.chat", "/api/chat", {**_MESSAGES, "stream": False}),
    Way("ollama.generate", "/api/generate", {"prompt": "hi", "stream": False}),
    Way("bedrock.converse", "/model/anthropic.m/converse", _BLOCKS),
    Way("bedrock.invoke", "/model/anthropic.m/invoke", _INVOKE),
]
STREAMED = [
    Way("openai.chat", "/v1/chat/completions", {**_MESSAGES, "stream": True}),
    Way("openai.responses", "/v1/responses", {"input": "hi", "stream": True}),
    Way("openai.completions", "/v1/completions", {"prompt": "hi", "stream": True}),
    Way("anthropic.messages", "/v1/messages", {**_ANTHROPIC, "stream": True}),
    Way("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", _CONTENTS),
    Way("gemini", "/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent", _CONTENTS),
    Way("ollama.chat", "/api/chat", _MESSAGES),
    Way("ollama.generate", "/api/generate", {"prompt": "hi"}),
    Way("bedrock.converse", "/model/anthropic.m/converse-stream", _BLOCKS),
    Way("bedrock.invoke", "/model/anthropic.m/invoke-with-response-stream", _INVOKE),
]
WAYS = [*PLAIN, *STREAMED]


@dataclass(frozen=True)
class Answered:
    """What came back, and what the server says of it."""

    way: Way
    response: httpx2.Response
    call: LoggedCall

    def step(self) -> Step:
        """The step that capture makes of it."""
        headers = [(name.lower(), value) for name, value in self.response.headers.items()]
        asked = Request("POST", f"https://vendor{self.way.path}", [], json.dumps(self.way.body).encode(), 1)
        answered = Response(self.response.status_code, headers, self.response.content, "complete", 2)
        (step,) = parse(Exchange("x", self.way.dialect, asked, answered))
        return step


def ask(way: Way, reply: Reply | Script, **more: Any) -> Answered:
    """Ask in one way, with more fields in the body."""
    app = ScriptedApp(reply if callable(reply) else lambda _: reply)

    async def post() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=app.asgi)
        async with httpx2.AsyncClient(transport=transport, base_url="http://engine") as client:
            return await client.post(way.path, json={**way.body, **more})

    response = asyncio.run(post())
    return Answered(way, response, app.log.snapshot()[0])
