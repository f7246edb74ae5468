"""Lists of more rows than are ever looked at once: over a warehouse of 11,000 steps, and while more of them come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.gateway.filled import TURNS, fill

from stepwell.gateway import GatewayConfig, create_app
from stepwell.spool import Spool, SpoolWriter
from stepwell.warehouse import Warehouse

COMMITS, STEPS = 11, 1000


class Many:
    """A client, and the ids of the steps in the order of commit."""

    def __init__(self, folder: Path, commits: int = COMMITS, steps: int = STEPS) -> None:
        self.root = folder / "warehouse"
        self.warehouse = Warehouse.open(self.root)
        self.ids = fill(self.warehouse, commits, steps, 5)
        self.writer = SpoolWriter(Spool(folder / "spool" / "gateway.db"))
        app = create_app(
            writer=self.writer,
            spool_folder=folder / "spool",
            token="t",
            warehouse=lambda: Warehouse.open(self.root, create=False),
            config=GatewayConfig(),
        )
        self.http = TestClient(app, base_url="http://127.0.0.1:8787", headers={"authorization": "Bearer t"})

    def pages(self, path: str, **parameters: Any) -> Iterator[list[dict[str, Any]]]:
        cursor: dict[str, str] = {}
        while True:
            answer = self.http.get(f"/api/v1{path}", params={**parameters, **cursor})
            assert answer.status_code == 200, answer.text
            said = answer.json()
            yield said["items"]
            if said["next"] is None:
                return
            cursor = {"cursor": said["next"]}

    def all(self, path: str, key: str, **parameters: Any) -> list[str]:
        return [row[key] for page in self.pages(path, **parameters) for row in page]

    def of(self, trajectory: str) -> list[str]:
        return self.all("/steps", "step_id", trajectory_id=trajectory, order="oldest", limit=7)

    def close(self) -> None:
        self.http.close()
        self.writer.close()


@pytest.fixture(scope="module", name="many")
def _many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Many]:
    many = Many(tmp_path_factory.mktemp("many"))
    yield many
    many.close()


@pytest.mark.timeout(120)
def test_every_step_once_and_in_order(many: Many) -> None:
    assert many.all("/steps", "step_id", limit=500) == many.ids[::-1]
    assert many.all("/steps", "step_id", limit=500, order="oldest", since_commit=7) == many.ids[7 * STEPS :]


def test_what_a_filter_leaves(many: Many) -> None:
    """Few of the rows that are looked at: more must be looked at for a page."""
    found = many.all("/steps", "step_id", limit=500, order="oldest", model="m2", status="error")
    rows = {row["step_id"] for page in many.pages("/steps", limit=500, model="m2") for row in page}
    assert len(rows) == COMMITS * STEPS // 4
    assert found == [id_ for id_ in many.ids if id_ in set(found)] and set(found) <= rows
    assert len(found) == COMMITS * STEPS // 20
    late = many.all("/steps", "step_id", limit=300, since_commit=COMMITS - 1)
    assert late == many.ids[-STEPS:][::-1]
    own = many.of("c005-t7")
    assert len(own) == TURNS and own == [id_ for id_ in many.ids if id_ in own]


def test_every_trajectory_once(many: Many) -> None:
    found = many.all("/trajectories", "trajectory_id", limit=200)
    assert found == sorted(f"c{c:03}-t{t}" for c in range(1, COMMITS + 1) for t in range(STEPS // TURNS))


def test_several_read_at_once(many: Many) -> None:
    """Each has a warehouse of its own, and the right answer."""
    wanted = {trajectory: many.of(trajectory) for trajectory in (f"c{number:03}-t{number}" for number in range(1, 7))}
    found: dict[str, list[list[str]]] = {}

    def read(trajectory: str) -> None:
        found[trajectory] = [many.of(trajectory) for _ in range(2)]

    threads = [threading.Thread(target=read, args=(trajectory,)) for trajectory in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {trajectory: [ids] * 2 for trajectory, ids in wanted.items()}


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_rows_that_come_meanwhile(tmp_path: Path, order: str) -> None:
    """They are neither in the way of the newest first, nor left out of the oldest first."""
    many = Many(tmp_path, 2, 300)
    pages = many.pages("/steps", limit=200, order=order)
    seen = [row["step_id"] for row in next(pages)]
    later = fill(many.warehouse, 1, 300)
    seen += [row["step_id"] for page in pages for row in page]
    assert seen == (many.ids[::-1] if order == "newest" else many.ids + later)
    many.close()
