"""A real gateway on a free port: in a thread, or as a process that can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import uvicorn

from stepwell import sdk
from stepwell.gateway import GatewayConfig, create_app
from stepwell.gateway._tokens import Tokens
from stepwell.spool import Record, Spool, SpoolReader, SpoolWriter

TOKEN = "the-token-of-this-installation"


@dataclass(frozen=True)
class Kept:
    """A record on the gateway's disk; the steps of one request, which it may keep as one, one by one."""

    id: str
    kind: str
    body: bytes


def kept(spool: Path) -> list[Kept]:
    with closing(SpoolReader(spool)) as reader:
        return [one for record in reader.read(0, limit=100_000) for one in _unfolded(record)]


def _unfolded(record: Record) -> list[Kept]:
    if record.kind != "steps":
        return [Kept(record.id, record.kind, record.body)]
    rows: list[dict[str, Any]] = pa.ipc.open_stream(record.body).read_all().to_pylist()
    steps = [{name: value for name, value in row.items() if value is not None} for row in rows]
    for step in steps:
        for name in {"messages", "response", "tools", "sampling", "usage", "metadata", "extra"} & set(step):
            step[name] = json.loads(step[name])
    return [Kept(f"step.{step['step_id']}", "step", json.dumps(step, default=str).encode()) for step in steps]


class NoWarehouse:
    """A warehouse in which `committed` is all there is."""

    def __init__(self) -> None:
        self.committed: dict[str, int] = {}

    def query(self, sql: str) -> Any:
        raise AssertionError("nothing here reads")

    def marks(self) -> Mapping[str, int]:
        return self.committed

    def version(self) -> int:
        return len(self.committed)


class Gateway:
    """The application on uvicorn in a thread, over a real spool."""

    def __init__(
        self,
        folder: Path,
        *,
        config: GatewayConfig | None = None,
        max_spool_bytes: int = 1 << 30,
        tokens: Tokens | None = None,
    ) -> None:
        self.folder = folder
        self.warehouse = NoWarehouse()
        self.spool = Spool(folder / "gateway.db", max_bytes=max_spool_bytes)
        self.writer = SpoolWriter(self.spool)
        app = create_app(
            writer=self.writer,
            spool_folder=folder,
            token=TOKEN,
            warehouse=self.warehouse,
            config=config,
            tokens=tokens,
        )
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self._thread.start()

    def records(self) -> list[Kept]:
        return kept(self.spool.path)

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(record.body) for record in self.records() if record.kind == kind]

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self.writer.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path / "spool")
    yield gateway
    gateway.stop()


@pytest.fixture
def client(gateway: Gateway) -> Iterator[sdk.Client]:
    with sdk.Client(gateway.url, TOKEN) as client:
        yield client


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the installation of whoever runs it."""
    monkeypatch.setenv("STEPWELL_HOME", str(tmp_path / "home"))
    for name in ("STEPWELL_URL", "STEPWELL_TOKEN", "STEPWELL_TRAJECTORY"):
        monkeypatch.delenv(name, raising=False)


_RUN = """
import json, sys
from pathlib import Path
from stepwell.gateway import GatewayConfig, run_gateway
data, token, port = sys.argv[1:]
run_gateway(
    GatewayConfig(port=int(port)), data=Path(data), home=Path(data), token=token, warehouse=data + "/warehouse",
    storage_options=None, ready=lambda said: print(json.dumps(said), flush=True),
)
"""


class GatewayProcess:
    """`run_gateway` in a process of its own, on one port throughout."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = 0
        self.process: subprocess.Popen[str] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-c", _RUN, str(self.data), TOKEN, str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(json.loads(self.process.stdout.readline())["port"])

    def end(self, number: int) -> int:
        assert self.process is not None and self.process.stdout is not None
        os.kill(self.process.pid, number)
        code = self.process.wait(30)
        self.process.stdout.close()
        self.process = None
        return code

    def records(self) -> list[Kept]:
        return kept(self.data / "spool" / "gateway.db")


@pytest.fixture
def gateway_process(tmp_path: Path) -> Iterator[GatewayProcess]:
    running = GatewayProcess(tmp_path / "data")
    yield running
    if running.process is not None:
        running.end(signal.SIGKILL)


def eventually(condition: Any, seconds: float = 20.0) -> None:
    """Wait for something that another thread is about to do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.01)


@pytest.fixture(name="eventually")
def _eventually() -> Any:
    return eventually


@pytest.fixture(name="token")
def _token() -> str:
    return TOKEN


@pytest.fixture(name="gateway_of")
def _gateway_of(tmp_path: Path) -> Iterator[Any]:
    """Gateways with other settings."""
    made: list[Gateway] = []

    def make(**settings: Any) -> Gateway:
        made.append(Gateway(tmp_path / f"spool{len(made)}", **settings))
        return made[-1]

    yield make
    for gateway in made:
        gateway.stop()
