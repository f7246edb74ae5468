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


def test_one_call_at_a_time() -> None:
    inside, most = 0, 0

    class Counting:
        def query(self, sql: str) -> Any:
            return self.marks()

        def marks(self) -> dict[str, int]:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.01)
            inside -= 1
            return {}

        def version(self) -> int:
            return len(self.marks())

    view = as_view(Counting())
    assert as_view(view) is view and isinstance(view, LazyWarehouse)
    threads = [threading.Thread(target=view.marks) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


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
