"""The real way of a call: OpenAI SDK → the proxy in its own process → a scripted server; spool → ingest → rows.

One proxy, one server and one warehouse serve all tests of this folder; each test has its own trajectories, so that what it finds
is its own. What was captured is compared with the scripted server's log.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from openai import AsyncOpenAI, OpenAI

from stepwell.cli._agent_environment import agent_environment
from stepwell.proxy import CONTROL_HOST, ProxyConfig, Route, trust_bundle
from stepwell.spool import marks
from stepwell.testing import ChatCall, LoggedCall, Reply, ScriptedServer
from stepwell.warehouse import Ingest, Warehouse

ENGINE = "https://api.openai.com/v1"
"""Routed to the scripted server, as a vLLM engine."""
PLAIN = "https://plain.example.com/v1"
"""Routed to the scripted server too, without saying what engine it is: nothing is added to a request."""
REFUSED = "https://refused.example.com/v1"
"""Routed to a port where nobody listens."""
VENDORS = (
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "ollama.com",
    "bedrock-runtime.us-east-1.amazonaws.com",
)
"""Hosts whose own dialects are routed to the scripted server."""
API_KEY = "sk-integration"
DEADLINE = 60.0
"""Seconds after which something that must happen is taken not to happen: long, for busy machines."""

Script = Callable[[ChatCall], Reply]
Row = dict[str, Any]


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """What `condition` returns, once that is something."""
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.02)
    return found


def nobodys_port() -> int:
    """A port of 127.0.0.1 that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass
class World:
    """What all tests share."""

    server: ScriptedServer
    data: Path
    home: Path
    log: Path
    process: subprocess.Popen[str]
    ports: dict[str, int]
    token: str
    warehouse: Warehouse
    ingest: Ingest
    bundle: Path
    control: httpx2.Client

    def proxy_url(self, trajectory: str | None) -> str:
        """As `stepwell run` sets it; for an anonymous agent the other port, without credentials."""
        if trajectory is None:
            return f"http://127.0.0.1:{self.ports['port']}"
        return f"http://{quote(trajectory, safe='')}:{self.token}@127.0.0.1:{self.ports['run_port']}"

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.bundle)

    def health(self) -> dict[str, int]:
        """What the proxy says of itself."""
        answer: dict[str, int] = self.control.get(f"http://{CONTROL_HOST}/health").json()
        return answer

    def settle(self) -> None:
        """Return when nothing is in flight and everything in the spool is committed."""
        eventually(lambda: (now := self.health())["in_flight"] == 0 == now["pending"], "the proxy is idle")
        accepted = marks(self.data / "spool")
        while any(self.warehouse.marks().get(producer, 0) < mark for producer, mark in accepted.items()):
            self.ingest.run_once()


@dataclass
class Site:
    """One test's part of the world."""

    world: World
    name: str
    first_call: int
    clients: ExitStack
    http2: bool = False
    protocols: list[str] = field(default_factory=list)
    """The HTTP version of each answer that a client of this test got."""

    @property
    def server(self) -> ScriptedServer:
        return self.world.server

    @property
    def calls(self) -> list[LoggedCall]:
        """The calls of this test that have ended, as the server logged them."""
        return self.server.calls[self.first_call :]

    def wait_for_calls(self, count: int) -> list[LoggedCall]:
        """For replies cut short: the calls, once so many have ended."""
        return self.server.wait_for_calls(self.first_call + count, DEADLINE)[self.first_call :]

    def script(self, script: Script | Reply) -> None:
        """What the model says from now on."""
        self.server.app.script = script if callable(script) else lambda _: script

    def http(self, trajectory: str | None) -> httpx2.Client:
        """An HTTP client behind the proxy, as `trajectory` (None: anonymous)."""
        client = httpx2.Client(
            proxy=self.world.proxy_url(trajectory),
            verify=self.world.trust(),
            http2=self.http2,
            timeout=DEADLINE,
            trust_env=False,
            event_hooks={"response": [lambda response: self.protocols.append(response.http_version)]},
        )
        return self.clients.enter_context(client)

    def openai(self, trajectory: str | None, base_url: str = ENGINE, retries: int = 0) -> OpenAI:
        return OpenAI(api_key=API_KEY, base_url=base_url, http_client=self.http(trajectory), max_retries=retries)

    def async_openai(self, trajectory: str | None, base_url: str = ENGINE) -> AsyncOpenAI:
        """To be closed by the test (`async with`), in its own event loop."""
        client = httpx2.AsyncClient(
            proxy=self.world.proxy_url(trajectory),
            verify=self.world.trust(),
            http2=self.http2,
            timeout=DEADLINE,
            trust_env=False,
        )
        return AsyncOpenAI(api_key=API_KEY, base_url=base_url, http_client=client, max_retries=0)

    def environment(self) -> dict[str, str]:
        """The variables of an agent that `stepwell run` has started, and nothing else to configure it with."""
        world = self.world
        return agent_environment(
            {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
            proxy=world.proxy_url(self.name),
            gateway="",
            trajectory=self.name,
            certificate=world.bundle,
            bundle=world.bundle,
        )

    def rows(self, count: int, trajectory: str | None = None) -> list[Row]:
        """The steps of a trajectory, in the order they came: waits until there are `count`, and asserts that there are no more."""
        rows: list[Row] = []

        def found() -> bool:
            self.world.settle()
            rows[:] = self.world.warehouse.steps(f"trajectory_id = '{trajectory or self.name}'").read_all().to_pylist()
            return len(rows) >= count

        eventually(found, f"{count} steps of {trajectory or self.name}")
        assert len(rows) == count, [row["step_id"] for row in rows]
        return rows

    def quarantined(self, trajectory: str | None = None) -> list[Row]:
        self.world.settle()
        found: list[Row] = self.world.warehouse.query(
            f"SELECT * FROM quarantine WHERE trajectory_id = '{trajectory or self.name}'"
        ).to_pylist()
        return found


def texts(message: str | None) -> str:
    """The text of a stored message."""
    parts = json.loads(message)["content"] if message else []
    return "".join(part["text"] for part in parts if part["type"] == "text")


def tool_calls(message: str) -> list[tuple[str, str, str]]:
    """Id, name and arguments of the calls in a stored message."""
    parts = json.loads(message)["content"]
    return [(part["id"], part["name"], part["arguments"]) for part in parts if part["type"] == "tool_call"]


def assert_same(row: Row, call: LoggedCall, choice: int = 0) -> None:
    """A stored step is what the server says it sampled: identity, text, calls, and every id and logprob."""
    sampled = call.choices[choice]
    assert row["response_id"] == call.call_id
    assert (row["status"], row["finish_reason"]) == ("ok", sampled.finish_reason)
    assert texts(row["response"]) == (sampled.content or "")
    assert tool_calls(row["response"]) == [(made.id, made.name, made.arguments) for made in sampled.tool_calls]
    assert row["prompt_ids"] == call.prompt_ids
    assert row["response_ids"] == sampled.response_ids
    assert row["logprobs"] == sampled.logprobs
    assert (row["source"], row["trainable"], row["untrainable_reason"]) == ("engine", True, None)


def assert_told(row: Row, call: LoggedCall, finish_reason: str, usage: dict[str, int]) -> None:
    """A stored step of a dialect without token ids is what the server says it sampled, and counts as the answer did."""
    sampled = call.choices[0]
    parts = json.loads(row["response"])["content"]
    assert (row["dialect"], row["status"], row["finish_reason"]) == (call.dialect, "ok", finish_reason)
    assert texts(row["response"]) == (sampled.content or "")
    assert "".join(part["text"] for part in parts if part["type"] == "reasoning") == (sampled.reasoning or "")
    made = [(id_, name, json.loads(arguments)) for id_, name, arguments in tool_calls(row["response"])]
    assert made == [(it.id, it.name, json.loads(it.arguments)) for it in sampled.tool_calls]
    told = json.loads(row["usage"])
    assert {name: told[name] for name in usage} == usage
    assert (row["trainable"], row["untrainable_reason"]) == (False, "the engine gave no token ids")


def assert_broken_off(row: Row, call: LoggedCall, status: str) -> None:
    """A stored step of an answer that ended early holds what there was of it, and says so."""
    assert (row["dialect"], row["status"], row["finish_reason"]) == (call.dialect, status, None)
    assert not row["trainable"]
    assert not call.delivered
    assert (call.choices[0].content or "").startswith(texts(row["response"]))
    assert texts(row["response"])


def say(text: str) -> list[Any]:
    """A conversation of one message."""
    return [{"role": "user", "content": text}]


def _settings(config: ProxyConfig, data: Path, home: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STEPWELL_") and not name.lower().endswith("_proxy")
    }
    return kept | {
        "STEPWELL_CONFIG": os.devnull,
        "STEPWELL_HOME": str(home),
        "STEPWELL_DATA": str(data),
        "STEPWELL_PROXY": config.model_dump_json(),
    }


def _config(server: ScriptedServer) -> ProxyConfig:
    routes = (
        Route(host="api.openai.com", upstream=server.url, engine="vllm", ca=server.ca_file),
        Route(host="plain.example.com", upstream=server.url, ca=server.ca_file),
        Route(host="refused.example.com", upstream=f"https://127.0.0.1:{nobodys_port()}", ca=server.ca_file),
        *(Route(host=host, upstream=server.url, ca=server.ca_file) for host in VENDORS),
    )
    return ProxyConfig(port=0, run_port=0, routes=routes)


@contextmanager
def _running_proxy(environment: dict[str, str], log: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """The process and its ports. Its standard input ends with this process, however that ends, and so does the proxy."""
    command = [sys.executable, "-P", "-m", "stepwell.cli", "proxy", "--supervised"]
    with log.open("wb") as errors, ExitStack() as stack:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=errors, text=True)
        stack.enter_context(process)
        stack.callback(process.terminate)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        yield process, json.loads(line)["ready"]
        process.terminate()
        assert process.wait(DEADLINE) == 0
    said = log.read_text()
    assert "Traceback" not in said, said
    assert "unrecorded" not in said, said


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("integration")
    data, home, log = folder / "data", folder / "home", folder / "proxy.log"
    with ScriptedServer(lambda _: Reply(content="unscripted")) as server:
        environment = _settings(_config(server), data, home)
        with _running_proxy(environment, log) as (process, ports):
            token = (home / "token").read_text().strip()
            url = f"http://health:{token}@127.0.0.1:{ports['run_port']}"
            warehouse = Warehouse.open(data / "warehouse")
            ingest, bundle = Ingest(warehouse, data / "spool"), trust_bundle(home, environ={})
            with httpx2.Client(proxy=url, trust_env=False) as control:
                yield World(server, data, home, log, process, ports, token, warehouse, ingest, bundle, control)


@pytest.fixture
def site(world: World) -> Iterator[Site]:
    """A test's own trajectory name, clients and view of the server's log."""
    with ExitStack() as clients:
        yield Site(world, f"it-{uuid.uuid4().hex[:12]}", len(world.server.calls), clients)


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def over(request: pytest.FixtureRequest, site: Site) -> Site:
    """`site`, with clients of one HTTP version, then of the other."""
    site.http2 = request.param == "HTTP/2"
    return site


@pytest.fixture
def agent(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """`site`, with this process's environment as an agent's: what an official SDK finds when nobody configures it."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for name, value in site.environment().items():
        monkeypatch.setenv(name, value)
    return site
