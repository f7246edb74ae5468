"""A gateway over a warehouse in which a little has happened: what the tests of reading read."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.testclient import TestClient
from tests.stores import Place

from stepwell.gateway import GatewayConfig, create_app
from stepwell.spool import Spool, SpoolWriter
from stepwell.warehouse import Ingest

TOKEN = "the-token-of-this-installation"


class Scene:
    """Submissions and reads over HTTP, and ingest when it is told."""

    def __init__(self, folder: Path, place: Place | None = None) -> None:
        """`place`: where the warehouse is, if not in the folder."""
        self.root, self.spool = folder / "warehouse", folder / "spool"
        place = place or Place(str(self.root))
        self.writer = SpoolWriter(Spool(self.spool / "gateway.db"))
        self.warehouse = place.open()
        self.app = create_app(
            writer=self.writer,
            spool_folder=self.spool,
            token=TOKEN,
            warehouse=lambda: place.open(create=False),
            config=GatewayConfig(),
        )
        self.http = TestClient(self.app, base_url="http://127.0.0.1:8787")
        self.http.headers["authorization"] = f"Bearer {TOKEN}"
        self.ingest = Ingest(self.warehouse, self.spool)

    def put(self, path: str, *records: dict[str, Any]) -> None:
        answer = self.http.post(f"/api/v1{path}", json=list(records))
        assert {item["status"] for item in answer.json()["items"]} == {"accepted"}, answer.text

    def commit(self) -> int:
        """Everything that was put; the number of the newest commit."""
        self.ingest.run_once()
        return self.warehouse.version()

    def get(self, path: str, *ids: str, **parameters: Any) -> Any:
        """`path` and, percent-encoded, the id of one thing."""
        return self.http.get("/api/v1" + "/".join([path, *(quote(id_, safe="") for id_ in ids)]), params=parameters)

    def close(self) -> None:
        self.http.close()
        self.ingest.close()
        self.writer.close()


def step(id_: str, trajectory: str, turn: int, **more: Any) -> dict[str, Any]:
    """A step whose prompt is one token longer with each turn, and begins with those before it."""
    prompt = [9, *range(1, 2 * turn + 2)]
    tokens = {"prompt_ids": prompt, "response_ids": [2 * turn + 2], "logprobs": [-0.5]}
    return {"step_id": id_, "trajectory_id": trajectory, **tokens, **more}
