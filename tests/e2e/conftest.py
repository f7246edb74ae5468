"""A whole installation for a test: settings file, home and data folder of its own, the `stepwell` command, a scripted server."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import psutil  # type: ignore[import-untyped]
import pytest
from openai import OpenAI
from tests.stores import KEYS, Place
from tests.stores.fixtures import faulty, moto_endpoint

from stepwell.proxy import trust_bundle
from stepwell.testing import Reply, ScriptedServer

__all__ = ["faulty", "moto_endpoint"]

STEPWELL = (sys.executable, "-P", "-m", "stepwell.cli")
AGENT = Path(__file__).parents[2] / "examples" / "unmodified_agent.py"
PROCESSES = ("proxy", "gateway", "ingest")
DEADLINE = 240.0
"""Seconds after which something that must happen is taken not to happen: long, for busy machines."""

Row = dict[str, Any]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Tests started in the background of a shell ignore Ctrl-C, and so would, by inheritance, the stacks that they want to stop by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def eventually(condition: Callable[[], Any], what: str, pause: float = 0.05) -> Any:
    """What `condition` returns, once that is something."""
    deadline = time.monotonic() + DEADLINE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(pause)
    return found


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 where nobody listens, all different."""
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment without settings, proxies and trust from outside."""
    trust = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("STEPWELL_") and not name.lower().endswith("_proxy") and name not in trust
    }
    return kept | {"STEPWELL_HOME": str(home), "PYTHONUNBUFFERED": "1", **more}


def run_stepwell(*arguments: str, env: Mapping[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, to its end."""
    return subprocess.run(
        [*STEPWELL, *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=DEADLINE, check=False
    )


@dataclass
class Up:
    """A running `stepwell up`."""

    process: subprocess.Popen[str]
    log: Path

    def children(self) -> dict[str, psutil.Process]:
        """Its processes by name, as the system sees them."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            try:
                words = child.cmdline()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
            if "--supervised" in words:
                found[words[words.index("--supervised") - 1]] = child
        return found

    def kill(self, name: str) -> int:
        """kill -9 one of its processes, which must be running; the process id it had."""
        child = self.children()[name]
        child.kill()
        return int(child.pid)

    def wait_until_up(self) -> None:
        """Return when it has said where everything listens."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Ctrl-C"):
                return
        raise AssertionError(f"stepwell up ended with {self.process.wait()}: {self.log.read_text()}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code after that signal."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE)

    def stop_at_once(self) -> None:
        """For the end of a test, whatever state it is in: the processes end with their supervisor."""
        if self.process.poll() is None:
            for child in self.children().values():
                child.kill()
            self.process.kill()
        self.process.wait(DEADLINE)
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass
class Installation:
    """What belongs together: where things are, the settings, and the server that stands in for api.openai.com."""

    folder: Path
    server: ScriptedServer
    proxy_port: int
    run_port: int
    gateway_port: int
    place: Place | None = None
    """Where the warehouse is, when that is not the folder in `data`."""
    running: list[Up] = field(default_factory=list)
    clients: ExitStack = field(default_factory=ExitStack)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    @property
    def gateway(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def environment(self) -> dict[str, str]:
        keys = {name.upper(): value for name, value in KEYS.items() if name != "aws_region"} if self.place else {}
        return clean_environment(self.home, OPENAI_API_KEY="sk-e2e", STEPWELL_URL=self.gateway, **keys)

    def write_settings(self) -> None:
        """`stepwell.toml` in the working directory, as a user would write it."""
        lines = ['data = "data"']
        if self.place:
            lines += [f"warehouse = {json.dumps(self.place.uri)}", "[store]"]
            lines += [f"endpoint = {json.dumps(self.place.options['aws_endpoint'])}", 'region = "us-east-1"']
        lines += [
            "[proxy]",
            f"port = {self.proxy_port}",
            f"run_port = {self.run_port}",
            "[[proxy.routes]]",
            'host = "api.openai.com"',
            f"upstream = {json.dumps(self.server.url)}",
            'engine = "vllm"',
            f"ca = {json.dumps(str(self.server.ca_file))}",
            "[gateway]",
            f"port = {self.gateway_port}",
        ]
        (self.folder / "stepwell.toml").write_text("\n".join(lines) + "\n")

    def start(self) -> Up:
        """`stepwell up`; does not wait."""
        log = self.folder / f"up-{len(self.running)}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*STEPWELL, "up"],
                env=self.environment,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.running.append(Up(process, log))
        return self.running[-1]

    def up(self) -> Up:
        """`stepwell up`, ready."""
        up = self.start()
        up.wait_until_up()
        return up

    def stepwell(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_stepwell(*arguments, env=self.environment, cwd=self.folder)

    def flush(self) -> None:
        """Wait until everything accepted so far is committed."""
        done = self.stepwell("flush", "--timeout", "90")
        assert done.returncode == 0, done.stderr

    def query(self, sql: str) -> list[Row]:
        done = self.stepwell("query", sql, "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        rows: list[Row] = json.loads(done.stdout)
        return rows

    def healthy(self) -> bool:
        """Whether the gateway answers."""
        try:
            answer = httpx2.get(f"{self.gateway}/api/v1/health", trust_env=False)
        except httpx2.TransportError:
            return False
        return answer.status_code == 200 and answer.json()["status"] == "ok"

    def openai(self, trajectory: str) -> OpenAI:
        """The SDK behind the proxy, as `stepwell run` sets it up for a trajectory."""
        proxy = f"http://{quote(trajectory, safe='')}:{self.token}@127.0.0.1:{self.run_port}"
        trust = ssl.create_default_context(cafile=trust_bundle(self.home, environ={}))
        http = self.clients.enter_context(httpx2.Client(proxy=proxy, verify=trust, trust_env=False, timeout=DEADLINE))
        return OpenAI(api_key="sk-e2e", http_client=http, max_retries=0)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    """An installation on free ports. What was started of it is gone afterwards."""
    with ScriptedServer(lambda _: Reply(content="unscripted")) as server:
        proxy, run, gateway = free_ports(3)
        made = Installation(tmp_path, server, proxy, run, gateway)
        made.write_settings()
        with made.clients:
            yield made
        for up in made.running:
            up.stop_at_once()
        for up in made.running:
            assert "Traceback" not in up.log.read_text(), up.log.read_text()
