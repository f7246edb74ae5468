"""Everything that can be read, from a warehouse on an object store, and while that one is away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.scene import Scene, step
from tests.stores import Endpoint, Place, moto_store

QUICK = {"client_max_retries": "1", "client_retry_timeout": "2", "timeout": "2s"}
"""Storage options of a client that gives up soon."""


@pytest.fixture(name="scene")
def _scene(tmp_path: Path, moto_endpoint: Endpoint) -> Iterator[Scene]:
    scene = Scene(tmp_path, moto_endpoint.place())
    yield scene
    scene.close()


def test_reading(scene: Scene) -> None:
    scene.put("/trajectories", {"trajectory_id": "run/1", "group_id": "g", "prompt_id": "p"})
    scene.put("/steps", *(step(f"a/{turn}", "run/1", turn, reward=0.5) for turn in range(3)))
    assert scene.commit() == 1
    first = scene.get("/steps", limit=2).json()
    assert [row["step_id"] for row in first["items"]] == ["a/2", "a/1"]
    scene.put("/steps", step("a/3", "run/1", 3))
    scene.put("/feedback", {"trajectory_id": "run/1", "reward": 1.0})
    scene.put("/trajectories", {"trajectory_id": "run/1", "state": "completed"})
    assert scene.commit() == 2  # what was read before is not what is read now
    assert [row["step_id"] for row in scene.get("/steps", limit=2, cursor=first["next"]).json()["items"]] == ["a/0"]
    assert [row["step_id"] for row in scene.get("/steps", since_commit=1).json()["items"]] == ["a/3"]

    whole = scene.get("/steps", "a/2").json()
    assert (whole["prompt_ids"], whole["response_ids"]) == ([9, 1, 2, 3, 4, 5], [6])
    assert (whole["step_reward"], whole["trajectory_reward"], whole["lineage"]["children"]) == (0.5, 1.0, ["a/3"])
    trajectory = scene.get("/trajectories", "run/1").json()
    assert (trajectory["state"], len(trajectory["tree"]), trajectory["tree_is_whole"]) == ("completed", 4, True)
    assert [row["trajectory_id"] for row in scene.get("/trajectories").json()["items"]] == ["run/1"]
    assert [row["group_id"] for row in scene.get("/groups").json()["items"]] == ["g"]
    assert scene.get("/groups", "g").json()["members"][0]["trajectory_reward"] == 1.0
    assert scene.get("/stats").json()["steps"]["steps"] == 4
    assert scene.get("/ready").json() == {"status": "ready", "spool": "ok", "store": "ok"}
    assert scene.http.post("/api/v1/flush", json={"timeout": 5}).json() == {"committed": True}

    scene.warehouse.refresh()
    scene.warehouse.datasets.create("d", "trajectory_reward > 0")
    assert scene.get("/datasets", "d").json()["versions"] == [1]
    lines = scene.get("/stream", since_commit=0, follow=False).text.splitlines()
    rows = [json.loads(line.partition(": ")[2]) for line in lines if line.startswith("data: ")]
    assert [row["step_id"] for row in rows if "parent_id" in row] == ["a/0", "a/1", "a/2", "a/3"]


def test_a_store_that_goes_away(tmp_path: Path) -> None:
    with moto_store() as server:
        place = server.place(**QUICK)
        scene = Scene(tmp_path, Place(place.uri, place.options))
        scene.put("/steps", step("a", "t", 0))
        scene.commit()
        assert scene.get("/steps", "a").status_code == 200
    answer = scene.get("/steps", "a")
    assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
    assert answer.headers["content-type"] == "application/problem+json"
    assert scene.get("/ready").json()["store"] == "unreachable"
    scene.put("/steps", step("b", "t", 1))  # that needs the spool only
    scene.writer.close()
    scene.http.close()
