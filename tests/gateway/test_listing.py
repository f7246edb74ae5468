"""The listing after each commit is what it would be if it were made anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.scene import Scene, step

from stepwell.gateway import _listing, _listing_news
from stepwell.gateway._listing import Listing
from stepwell.gateway._warehouse import LazyWarehouse
from stepwell.warehouse import Forget, Warehouse

ALL = 'SELECT * FROM steps ORDER BY "commit", producer, sequence, step_id'


class Counted(LazyWarehouse):
    """Notes what it is asked."""

    def __init__(self, root: Path) -> None:
        super().__init__(lambda: Warehouse.open(root, create=False))
        self.asked: list[str] = []

    def query(self, sql: str) -> Any:
        self.asked.append(sql)
        return super().query(sql)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Any:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def test_what_commits_bring_is_added_and_what_they_say_of_others_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_listing_news, "_FEW", 2)
    warehouse = Counted(scene.root)
    listing = Listing(warehouse)

    def agrees() -> list[dict[str, Any]]:
        kept, anew = listing.ask(ALL), Listing(warehouse).ask(ALL)
        assert kept.to_pylist() == anew.to_pylist()
        return [dict(row) for row in kept.to_pylist()]

    scene.put("/steps", *(step(f"a{n}", "t", n, response_id=f"r{n}") for n in range(3)))
    scene.commit()
    assert [row["reward"] for row in agrees()] == [None] * 3
    scene.put("/steps", *(step(f"b{n}", "u", n, reward=0.5, metadata={"agent": "me", "tags": ["x"]}) for n in range(5)))
    scene.commit()
    assert [row["agent"] for row in agrees()] == [None] * 3 + ["me"] * 5
    scene.put("/trajectories", {"trajectory_id": "t", "group_id": "g", "prompt_id": "p", "split": "eval"})
    scene.put("/feedback", {"trajectory_id": "t", "reward": 2}, {"step_id": "b1", "label": "side"})
    scene.put("/feedback", {"response_id": "r1", "reward": 9}, {"step_id": "b0", "reward": 1, "name": "other"})
    scene.commit()
    rows = {row["step_id"]: row for row in agrees()}
    assert [rows[f"a{n}"]["reward"] for n in range(3)] == [2, 9, 2] and rows["a0"]["group_id"] == "g"
    assert rows["b0"]["reward"] == 1.5 and rows["b1"]["side"] and rows["b1"]["labels"] == ["side"]

    asked = len(warehouse.asked)
    listing.ask(ALL)
    assert len(warehouse.asked) == asked  # nothing new, nothing is read
    scene.put("/steps", step("c", "t", 3))
    scene.commit()
    asked = len(warehouse.asked)
    assert [row["step_id"] for row in listing.ask(ALL).to_pylist()][-1] == "c"
    assert all("LIMIT" in sql or " IN (" in sql for sql in warehouse.asked[asked:]), "not all steps are read again"


def test_many_more_than_there_were_are_read_at_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_listing_news, "_FEW", 1)
    monkeypatch.setattr(_listing_news, "_MANY", 2)
    listing = Listing(LazyWarehouse(lambda: Warehouse.open(scene.root, create=False)))
    assert listing.ask(ALL).num_rows == 0
    scene.put("/steps", *(step(f"a{n}", "t", n) for n in range(9)))
    scene.commit()
    assert listing.ask(ALL)["step_id"].to_pylist() == [f"a{n}" for n in range(9)]


def test_it_is_kept_made_while_nobody_asks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_listing, "_EVERY", 0.01)
    warehouse, over = Counted(scene.root), threading.Event()
    listing = Listing(warehouse)
    keeping = threading.Thread(target=listing.keep, args=(over,))
    keeping.start()
    try:
        for number in range(2):
            scene.put("/steps", step(f"s{number}", "t", number))
            scene.commit()
            eventually(lambda: listing._state[0] == scene.warehouse.version() and listing._summarised == listing._state)
    finally:
        over.set()
        keeping.join()
    asked = len(warehouse.asked)
    assert [row["step_id"] for row in listing.ask(ALL, summaries=True).to_pylist()] == ["s0", "s1"]
    assert len(warehouse.asked) == asked


def test_sets_of_ids_are_bounded_by_what_is_in_them(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.put("/steps", *(step(f"a{n}", "t", n) for n in range(9)))
    scene.commit()
    warehouse = Counted(scene.root)
    listing = Listing(warehouse)
    monkeypatch.setattr(_listing, "_IDS", 10)

    def asked(condition: str) -> tuple[int, bool]:
        before = len(warehouse.asked)
        rows = listing.satisfying(condition).num_rows
        return rows, len(warehouse.asked) > before

    listing.current()
    assert [asked("turn < 9"), asked("turn < 1"), asked("turn < 9"), asked("turn < 1")] == [
        (9, True), (1, True), (9, False), (1, False)
    ]  # fmt: skip
    assert asked("turn < 8") == (8, True)
    assert [asked("turn < 1"), asked("turn < 9")] == [(1, False), (9, True)], "the ones that were used last stay"


def test_what_was_forgotten_is_gone(scene: Scene) -> None:
    scene.put("/steps", step("a", "t", 0), step("b", "u", 0))
    scene.commit()
    assert {row["step_id"] for row in scene.get("/steps", sort="model").json()["items"]} == {"a", "b"}
    assert Forget(scene.warehouse).run(["t"]) is not None
    answer = scene.get("/steps", sort="model", count="true").json()
    assert [row["step_id"] for row in answer["items"]] == ["b"] and answer["count"]["count"] == 1
    assert [row["trajectory_id"] for row in scene.get("/trajectories").json()["items"]] == ["u"]


def test_trajectories_are_as_new_as_the_commits(scene: Scene) -> None:
    scene.put("/steps", step("a", "t", 0))
    scene.commit()
    assert [row["state"] for row in scene.get("/trajectories").json()["items"]] == ["open"]
    scene.http.post("/api/v1/trajectories/t/complete")
    scene.put("/feedback", {"trajectory_id": "t", "reward": 1})
    scene.commit()
    [row] = scene.get("/trajectories").json()["items"]
    assert (row["state"], row["trajectory_reward"], row["steps"]) == ("completed", 1, 1)


def test_a_count_is_remembered_until_something_is_committed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = Listing.ask

    def ask(self: Listing, sql: str, **more: Any) -> Any:
        asked.append(sql)
        return real(self, sql, **more)

    monkeypatch.setattr(Listing, "ask", ask)

    def count(**given: Any) -> tuple[int, int]:
        """How many there are, and how often that was counted."""
        asked.clear()
        said = scene.get("/steps", count="true", limit=1, **given).json()["count"]
        return said["count"], sum("count(*)" in sql for sql in asked)

    scene.put("/steps", step("a", "t", 0), step("b", "u", 0))
    scene.commit()
    assert [count(), count(), count(trajectory_id="t"), count(trajectory_id="t")] == [(2, 1), (2, 0), (1, 1), (1, 0)]
    about_time = "turn >= 0 and now() > TIMESTAMPTZ '2020-01-01'"
    assert [count(where=about_time), count(where=about_time)] == [(2, 1), (2, 1)]
    scene.put("/steps", step("c", "t", 1))
    scene.commit()
    assert [count(), count(trajectory_id="t"), count()] == [(3, 1), (2, 1), (3, 0)]
    assert Forget(scene.warehouse).run(["t"]) is not None
    assert count() == (1, 1)
