"""The application over a real spool, called in process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from tests.stores.fixtures import moto_endpoint

from stepwell.errors import StoreError
from stepwell.gateway import GatewayConfig, create_app
from stepwell.gateway._memory import Memory
from stepwell.gateway._rows import JSON
from stepwell.sdk.records import Step
from stepwell.spool import Record, Spool, SpoolReader, SpoolWriter

__all__ = ["moto_endpoint"]

TOKEN = "the-token-of-this-installation"


class FakeWarehouse:
    """What it is told is committed; notes the SQL it is asked."""

    def __init__(self) -> None:
        self.committed: dict[str, int] = {}
        self.rows: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.broken = False

    def query(self, sql: str) -> pa.Table:
        self._check()
        self.asked.append(sql)
        return pa.Table.from_pylist(self.rows)

    def marks(self) -> Mapping[str, int]:
        self._check()
        return self.committed

    def version(self) -> int:
        self._check()
        return len(self.committed)

    def _check(self) -> None:
        if self.broken:
            raise StoreError("the store is away")


class Api:
    """A client that has the token, and a look at what came to the spool."""

    def __init__(self, folder: Path, warehouse: Any, config: GatewayConfig, max_spool_bytes: int) -> None:
        self.folder = folder
        self.spool = Spool(folder / "gateway.db", max_bytes=max_spool_bytes)
        self.writer = SpoolWriter(self.spool)
        self.memory = Memory(folder / "gateway.seen")
        self.app = create_app(
            writer=self.writer,
            spool_folder=folder,
            token=TOKEN,
            warehouse=warehouse,
            config=config,
            memory=self.memory,
            policy=folder / "policy.json",
        )
        self.http = TestClient(self.app, base_url="http://127.0.0.1:8787", raise_server_exceptions=True)
        self.http.headers["authorization"] = f"Bearer {TOKEN}"

    def post(self, path: str, value: Any = None, **more: Any) -> Any:
        more = {"json": value, **more} if value is not None else more
        return self.http.post(f"/api/v1{path}", **more)

    def get(self, path: str, **parameters: Any) -> Any:
        return self.http.get(f"/api/v1{path}", params=parameters)

    def records(self) -> list[Record]:
        with closing(SpoolReader(self.spool.path)) as reader:
            return reader.read(0, limit=100_000)

    def steps(self) -> list[Step]:
        """The steps in the spool, in their order, of whatever kind of record."""
        found: list[Step] = []
        for record in self.records():
            if record.kind == "steps":
                for row in pa.ipc.open_stream(record.body).read_all().to_pylist():
                    said = {name: json.loads(v) if name in JSON and v is not None else v for name, v in row.items()}
                    found.append(Step(**{name: value for name, value in said.items() if value is not None}))
            elif record.kind == "step":
                found.append(Step.model_validate_json(record.body))
        return found

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(record.body) for record in self.records()]


@pytest.fixture
def warehouse() -> FakeWarehouse:
    return FakeWarehouse()


@pytest.fixture
def api_of(tmp_path: Path, warehouse: FakeWarehouse) -> Iterator[Any]:
    """Gateways with other settings."""
    made: list[Api] = []

    def make(config: GatewayConfig | None = None, warehouse: Any = warehouse, max_spool_bytes: int = 1 << 30) -> Api:
        folder = tmp_path / f"spool{len(made)}"
        made.append(Api(folder, warehouse, config or GatewayConfig(), max_spool_bytes))
        return made[-1]

    yield make
    for api in made:
        api.http.close()
        api.writer.close()
        api.memory.close()


@pytest.fixture
def api(api_of: Any) -> Any:
    return api_of()


@pytest.fixture(name="token")
def _token() -> str:
    return TOKEN
