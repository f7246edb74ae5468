"""A clean place for every test: own home, own working directory, no settings from outside; and a stand-in for the proxy."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Completed = subprocess.CompletedProcess[str]
TOKEN = "token-of-this-test"
_TRUST = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "CODEX_CA_CERTIFICATE",
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    for name in list(os.environ):
        if name.startswith("STEPWELL_") or name.lower().endswith("_proxy") or name in _TRUST:
            monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("STEPWELL_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "token").write_text(TOKEN + "\n")
    return folder


@pytest.fixture
def stepwell() -> Callable[..., Completed]:
    """Run the command in a process of its own, as a user does."""

    def run(*arguments: str, **more: Any) -> Completed:
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, **more}
        return subprocess.run([sys.executable, "-m", "stepwell.cli", *arguments], **options)

    return run


@pytest.fixture
def warehouse(place: Path) -> Path:
    """The default warehouse of the working directory, empty."""
    from stepwell.warehouse import Warehouse

    folder = place / "stepwell-data" / "warehouse"
    Warehouse.open(folder)
    return folder


@dataclass
class FakeProxy:
    """What `stepwell run` sees of a proxy: the control endpoints, credentials checked."""

    port: int = 0
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    refuse: tuple[int, dict[str, Any]] | None = None
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is answered besides, by the end of the path."""
    hang_up: int = 0
    """How many of the next requests get no answer."""
    ended: threading.Event = field(default_factory=threading.Event)

    def states(self) -> list[tuple[str, str, str | None]]:
        return [(path, body["state"], body.get("reason")) for path, body in self.asked]


@pytest.fixture
def fake_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProxy]:
    fake = FakeProxy()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            scheme, _, credentials = self.headers.get("proxy-authorization", "").partition(" ")
            user, _, password = base64.b64decode(credentials).decode().partition(":")
            if scheme != "Basic" or password != TOKEN:
                return self.answer(407, {"detail": "credentials"})
            if fake.hang_up:
                fake.hang_up -= 1
                self.connection.close()
                return None
            if fake.refuse is not None:
                return self.answer(*fake.refuse)
            fake.users.append(user)
            fake.keys.append(self.headers.get("idempotency-key"))
            fake.asked.append((self.path, json.loads(body)))
            self.answer(200, fake.answers.get(self.path.rpartition("/")[2], {}))
            if self.path.endswith("/end"):
                fake.ended.set()
            return None

        def answer(self, status: int, document: dict[str, Any]) -> None:
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        fake.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("STEPWELL_PROXY__RUN_PORT", str(fake.port))
        yield fake
        server.shutdown()
        thread.join()


@pytest.fixture
def take_in(place: Path) -> Callable[..., None]:
    """Called with what steps say each, puts them into the default warehouse of the working directory."""

    def take_in(*steps: dict[str, Any]) -> None:
        from stepwell.sdk.records import Step, encoded
        from stepwell.spool import Entry, Spool
        from stepwell.warehouse import Ingest, Warehouse

        spools = place / "stepwell-data" / "spool"
        spools.mkdir(parents=True)
        spool = Spool(spools / "agent.db")
        for said in steps:
            step = Step(response_ids=[3], model="m", **said)
            spool.append([Entry(id=step.step_id, kind="step", body=encoded(step))])
        spool.close()
        worker = Ingest(Warehouse.open(place / "stepwell-data" / "warehouse"), spools)
        while worker.run_once():
            pass

    return take_in
