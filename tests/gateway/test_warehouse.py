from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.gateway._warehouse import LazyWarehouse, as_view
from stepwell.warehouse import Ingest, Warehouse


def test_it_is_opened_when_first_needed_and_once(warehouse: Any) -> None:
    opened: list[int] = []

    def open_() -> Any:
        opened.append(1)
        return warehouse

    view = as_view(open_)
    assert opened == []
    view.marks()
    view.query("SELECT 1")
    assert opened == [1] and warehouse.asked == ["SELECT 1"]


def test_a_failure_is_tried_again(warehouse: Any) -> None:
    answers: list[Any] = [OSError("away"), ValueError("not found"), StoreError("still away"), warehouse]

    def open_() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    view = as_view(open_)
    for reason in ("away", "not found", "still away"):
        with pytest.raises(StoreError, match=reason):
            view.marks()
    assert view.marks() == {}


class Held:
    """A view in which a call waits until it is let go; all that were made are in `views`."""

    def __init__(self, views: list[Held]) -> None:
        self.inside, self.go, self.asked = threading.Event(), threading.Event(), 0
        views.append(self)

    def query(self, sql: str) -> Any:
        self.asked += 1
        if sql == "wait":
            self.inside.set()
            assert self.go.wait(10)
        return sql

    def marks(self) -> dict[str, int]:
        return {}

    def version(self) -> int:
        return 0


def test_a_call_that_takes_long_holds_nobody() -> None:
    views: list[Held] = []
    view = as_view(lambda: Held(views))
    view.query("a")
    first = threading.Thread(target=view.query, args=("wait",))
    first.start()
    assert views[0].inside.wait(10)  # it has the one that was there
    assert view.query("b") == "b" and view.query("c") == "c" and view.version() == 0
    assert [one.asked for one in views] == [2, 2]  # the others took turns with one more
    views[0].go.set()
    first.join()
    view.query("d")
    assert [one.asked for one in views] == [3, 2]


def test_not_more_than_some_at_once() -> None:
    views: list[Held] = []
    view = LazyWarehouse(lambda: Held(views), most=2)
    threads = [threading.Thread(target=view.query, args=("wait",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    while len(views) < 2 or not all(one.inside.is_set() for one in views):
        threading.Event().wait(0.01)
    third = threading.Thread(target=view.query, args=("a",))
    third.start()
    third.join(0.05)
    assert third.is_alive() and len(views) == 2
    views[1].go.set()
    third.join(10)
    assert not third.is_alive() and len(views) == 2
    views[0].go.set()
    for thread in threads:
        thread.join()


def test_one_that_is_open_already_is_asked_one_thing_at_a_time() -> None:
    views: list[Held] = []
    view = as_view(Held(views))
    assert as_view(view) is view and isinstance(view, LazyWarehouse)
    first, second = (threading.Thread(target=view.query, args=(sql,)) for sql in ("wait", "a"))
    first.start()
    assert views[0].inside.wait(10)
    second.start()
    second.join(0.05)
    assert second.is_alive() and views[0].asked == 1
    views[0].go.set()
    for thread in (first, second):
        thread.join(10)
    assert views[0].asked == 2


def test_a_call_that_fails_gives_its_place_back(warehouse: Any) -> None:
    view = LazyWarehouse(lambda: warehouse, most=1)
    warehouse.broken = True
    for _ in range(3):
        with pytest.raises(StoreError, match="away"):
            view.marks()
    warehouse.broken = False
    assert view.marks() == {}


def test_through_the_real_warehouse(api_of: Any, tmp_path: Path) -> None:
    """Submitted over HTTP, ingested, read over HTTP."""
    root = tmp_path / "warehouse"
    api = api_of(warehouse=lambda: Warehouse.open(root, create=False))
    assert api.get("/steps").status_code == 503  # nobody made one yet
    api.post("/trajectories", {"trajectory_id": "messages-1", "group_id": "g", "split": "eval"})
    steps = [
        {"step_id": f"s{number}", "trajectory_id": "messages-1", "prompt_ids": [1] * (number + 1), "response_ids": [2]}
        for number in range(3)
    ]
    api.post("/steps", [{**step, "reward": 0.5} for step in steps])
    api.post("/feedback", {"trajectory_id": "messages-1", "reward": 1.0})
    api.post("/trajectories/messages-1/complete")
    assert api.post("/steps", steps[0]).json()["items"][0]["status"] == "duplicate"
    Ingest(Warehouse.open(root), api.folder).run_once()
    assert api.post("/flush").json() == {"committed": True}

    page = api.get("/steps", limit=2, order="oldest").json()
    rows = page["items"] + api.get("/steps", limit=2, order="oldest", cursor=page["next"]).json()["items"]
    assert [(row["step_id"], row["group_id"], row["split"], row["step_reward"]) for row in rows] == [
        (f"s{number}", "g", "eval", 0.5) for number in range(3)
    ]
    assert [row["prompt_length"] for row in rows] == [1, 2, 3]
    assert len(api.get("/steps", trajectory_id="messages-1").json()["items"]) == 3
    (trajectory,) = api.get("/trajectories", group_id="g").json()["items"]
    assert (trajectory["state"], trajectory["steps"], trajectory["trajectory_reward"]) == ("completed", 3, 1.0)
    assert trajectory["response_tokens"] == 3
    assert api.get("/datasets").json() == {"items": [], "next": None}
