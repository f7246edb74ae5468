"""Scripted servers and OpenAI clients that stop and close themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, OpenAI

from stepwell.testing import Script, ScriptedServer

Serve = Callable[..., ScriptedServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a scripted server: `serve(script, **options)`."""
    with ExitStack() as stack:
        yield lambda script, **options: stack.enter_context(ScriptedServer(script, **options))


@dataclass(frozen=True)
class Endpoint:
    """A running server and clients that reach it over one HTTP version."""

    server: ScriptedServer
    http: httpx2.Client
    http2: bool

    @property
    def openai(self) -> OpenAI:
        return OpenAI(api_key="sk-test", base_url=self.server.base_url, http_client=self.http, max_retries=0)

    def client(self) -> httpx2.Client:
        """Another client."""
        verify: Any = self.server.client_context() if self.server.base_url.startswith("https") else False
        return httpx2.Client(verify=verify, http2=self.http2)

    def post(self, **body: Any) -> httpx2.Response:
        body.setdefault("messages", [{"role": "user", "content": "hi"}])
        return self.http.post(self.server.base_url + "/chat/completions", json=body)


@pytest.fixture(params=["http", "https", "h2"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[Callable[..., Endpoint]]:
    """Start a server and reach it by plain HTTP/1.1, by HTTP/1.1 over TLS, and by HTTP/2: `endpoint(script)`."""
    with ExitStack() as stack:

        def start(script: Script, **options: Any) -> Endpoint:
            tls, http2 = request.param != "http", request.param == "h2"
            server = stack.enter_context(ScriptedServer(script, tls=tls, **options))
            verify: Any = server.client_context() if tls else False
            return Endpoint(server, stack.enter_context(httpx2.Client(verify=verify, http2=http2)), http2)

        yield start


@pytest.fixture
async def async_client() -> AsyncIterator[Callable[..., AsyncOpenAI]]:
    """An async OpenAI client for a server: `async_client(server, http2=True)`."""
    clients: list[httpx2.AsyncClient] = []

    def make(server: ScriptedServer, *, http2: bool = False) -> AsyncOpenAI:
        clients.append(httpx2.AsyncClient(verify=server.client_context(), http2=http2))
        return AsyncOpenAI(api_key="sk-test", base_url=server.base_url, http_client=clients[-1], max_retries=0)

    yield make
    for client in clients:
        await client.aclose()
