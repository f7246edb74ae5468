"""A real gateway on a real socket, over a real warehouse that the test fills: what the browser of these tests talks to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from stepwell.gateway import GatewayConfig, Tokens, create_app
from stepwell.spool import Spool, SpoolWriter
from stepwell.warehouse import Ingest, Warehouse

TOKEN = "the-token-of-this-installation"


class House:
    """Submissions in process, ingest when it is told, and the same application at `url`."""

    def __init__(self, folder: Path, **more: Any) -> None:
        """`more`: further arguments of `create_app`."""
        self.folder, self.spool, uri = folder, folder / "spool", str(folder / "warehouse")
        self.writer = SpoolWriter(Spool(self.spool / "gateway.db"))
        self.warehouse = Warehouse.open(uri)
        self.tokens = Tokens(folder / "home")
        self.app = create_app(
            writer=self.writer,
            spool_folder=self.spool,
            token=TOKEN,
            warehouse=lambda: Warehouse.open(uri, create=False),
            config=GatewayConfig(),
            tokens=self.tokens,
            **more,
        )
        self.http = TestClient(self.app, base_url="http://127.0.0.1:8787")
        self.http.headers["authorization"] = f"Bearer {TOKEN}"
        self.ingest = Ingest(self.warehouse, self.spool)
        self.url = ""

    def put(self, path: str, *records: dict[str, Any]) -> None:
        """Submit, and have all of it accepted."""
        answer = self.http.post(f"/api/v1{path}", json=list(records))
        assert {item["status"] for item in answer.json()["items"]} == {"accepted"}, answer.text

    def commit(self) -> int:
        """Everything that was put; the number of the newest commit."""
        self.ingest.run_once()
        return self.warehouse.version()

    def get(self, path: str, **parameters: Any) -> Any:
        """The parsed answer of the interface, for what a page shows to be compared with."""
        answer = self.http.get(f"/api/v1{path}", params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        self.http.close()
        self.ingest.close()
        self.writer.close()


@contextmanager
def open_house(folder: Path, **more: Any) -> Iterator[House]:
    """Serve until the end of the block; streams are let go first, as at a signal."""
    house = House(folder, **more)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        house.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = uvicorn.Config(house.app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=5)
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield house
        finally:
            house.app.state.streams.ending = server.should_exit = True
            thread.join()
            house.close()
