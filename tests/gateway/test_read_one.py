"""One step, trajectory, group, dataset, and the filters of lists: over a real warehouse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.scene import Scene, step

from stepwell.gateway._cursor import opaque

NESTED = {"a": [{"b": 2**60, "c": "</script>\u2028"}]}


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two trajectories of one group, in three commits, with a branch and a sub-agent; nothing writes to it later."""
    scene = Scene(tmp_path_factory.mktemp("scene"))
    scene.put("/trajectories", {"trajectory_id": "run/1", "group_id": "g/1", "prompt_id": "p", "split": "eval"})
    scene.put("/steps", *(step(f"a/{turn}", "run/1", turn, reward=0.5, policy_version=turn) for turn in range(3)))
    scene.commit()
    asked = {"messages": [{"role": "user", "content": "hé"}], "response": {"role": "assistant", "content": "yes"}}
    said = {"metadata": NESTED, "model": "m", "status": "truncated", "finished_at": "2026-01-01T00:00:00Z"}
    scene.put("/steps", {"step_id": "sub", "trajectory_id": "run/1", "response_id": "resp-1", **asked, **said})
    scene.put("/steps", step("a/2b", "run/1", 2), step("b", "run?2", 0, group_id="g/1", prompt_id="p"))
    scene.commit()
    scene.put("/feedback", {"step_id": "a/1", "label": "good", "author": "ann", "feedback_id": "f1"})
    scene.put("/feedback", {"response_id": "resp-1", "score": 0.25, "name": "judge", "feedback_id": "f2"})
    scene.put("/feedback", {"trajectory_id": "run/1", "reward": 1.0}, {"trajectory_id": "run?2", "reward": 0.0})
    scene.put("/trajectories", *({"trajectory_id": name, "state": "completed"} for name in ("run/1", "run?2")))
    assert scene.commit() == 3
    yield scene
    scene.close()


def test_a_step_is_whole(scene: Scene) -> None:
    found = scene.get("/steps", "a/1").json()
    assert (found["prompt_ids"], found["response_ids"], found["logprobs"]) == ([9, 1, 2, 3], [4], [-0.5])
    assert (found["group_id"], found["split"], found["commit"], found["policy_version"]) == ("g/1", "eval", 1, 1)
    assert (found["step_reward"], found["trajectory_reward"], found["labels"]) == (0.5, 1.0, ["good"])
    assert found["lineage"] == {
        "parent_id": "a/0", "ancestors": ["a/0"], "children": ["a/2", "a/2b"], "attempts": [], "same_answer": [],
    }  # fmt: skip
    assert {(row["kind"], row["event_id"]) for row in found["feedback"]} == {("reward", "a/1.reward"), ("label", "f1")}
    assert "base_id" not in found and "prompt_ops" not in found


def test_texts_are_what_they_say(scene: Scene) -> None:
    answer = scene.get("/steps", "sub")
    found = answer.json()
    assert found["messages"][0]["content"] == [{"type": "text", "text": "hé"}]
    assert found["response"]["role"] == "assistant" and found["metadata"] == NESTED
    assert answer.headers["content-type"] == "application/json"
    assert found["step_scores"] == {"judge": 0.25}
    assert [row["event_id"] for row in found["feedback"]] == ["f2"]  # said of the provider's id
    assert found["prompt_ids"] is None and found["lineage"]["parent_id"] is None


def test_a_trajectory_is_a_tree(scene: Scene) -> None:
    found = scene.get("/trajectories", "run/1").json()
    assert (found["state"], found["steps"], found["trajectory_reward"]) == ("completed", 5, 1.0)
    assert {node["step_id"]: node["parent_id"] for node in found["tree"]} == {
        "a/0": None, "a/1": "a/0", "a/2": "a/1", "a/2b": "a/1", "sub": None,
    }  # fmt: skip
    assert found["conversations"] == [
        {"root_id": "a/0", "steps": 4, "ends": ["a/2", "a/2b"]},
        {"root_id": "sub", "steps": 1, "ends": ["sub"]},
    ]
    assert found["tree_is_whole"] is True
    kinds = [event["kind"] for event in found["events"]]
    assert kinds[0] == "trajectory.open" and kinds[-1] == "trajectory.completed"
    assert sorted(kinds[1:-1]) == ["label", "reward", "reward", "reward", "reward", "score"]
    assert found["events"][0]["payload"]["group_id"] == "g/1"


def test_a_long_trajectory_is_cut(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.gateway._read_trajectories._SHOWN", 2)
    monkeypatch.setattr("stepwell.gateway._read_listed._AT_ONCE", 1)
    found = scene.get("/trajectories", "run/1").json()
    assert [node["step_id"] for node in found["tree"]] == ["a/0", "a/1"] and found["tree_is_whole"] is False
    assert [event["kind"] for event in found["events"]] == ["trajectory.open", "reward"] and found["steps"] == 5


def test_a_group(scene: Scene) -> None:
    found = scene.get("/groups", "g/1").json()
    assert (found["trajectories"], found["ready"], found["reward_mean"]) == (2, True, 0.5)
    assert [(row["trajectory_id"], row["trajectory_reward"]) for row in found["members"]] == [
        ("run/1", 1.0),
        ("run?2", 0.0),
    ]
    assert [row["group_id"] for row in scene.get("/groups", ready=True).json()["items"]] == ["g/1"]
    assert scene.get("/groups", ready=False).json() == {"items": [], "next": None}
    assert scene.get("/groups", prompt_id="p", split="eval", limit=1).json()["next"] is None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"trajectory_id": "run?2"}, ["b"]),
        ({"group_id": "g/1", "order": "oldest"}, ["a/0", "a/1", "a/2", "sub", "a/2b", "b"]),
        ({"prompt_id": "p", "split": "train"}, ["b"]),
        ({"status": "truncated"}, ["sub"]),
        ({"source": "engine", "policy_version_min": 1}, ["a/2", "a/1"]),
        ({"policy_version_max": 1, "policy_version_min": 1}, ["a/1"]),
        ({"model": "m"}, ["sub"]),
        ({"since_commit": 1}, ["b", "a/2b", "sub"]),
        ({"since_commit": 1, "order": "oldest"}, ["sub", "a/2b", "b"]),
        ({"since_commit": 3}, []),
        ({"since_commit": 3, "order": "oldest"}, []),
    ],
)
def test_steps_by_filter(scene: Scene, filters: dict[str, Any], expected: list[str]) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        page = scene.get("/steps", **filters, limit=2, **({} if cursor is None else {"cursor": cursor})).json()
        seen += [row["step_id"] for row in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert seen == expected


def test_trajectories_by_state(scene: Scene) -> None:
    assert [
        row["trajectory_id"] for row in scene.get("/trajectories", state="completed", split="eval").json()["items"]
    ] == ["run/1"]
    assert scene.get("/trajectories", state="open").json()["items"] == []
    assert scene.get("/trajectories", state="odd").status_code == 422


def test_a_dataset_and_its_versions(scene: Scene) -> None:
    for note in ("first", "second"):
        scene.warehouse.datasets.create("math/easy", "trainable AND NOT side", note=note)
    newest, first = scene.get("/datasets", "math/easy").json(), scene.get("/datasets", "math/easy@1").json()
    assert (newest["version"], newest["note"], newest["versions"]) == (2, "second", [1, 2])
    assert (first["version"], first["note"], first["versions"]) == (1, "first", [1, 2])
    assert newest["steps"] == 5 and newest["lineage"]["trajectories"] == 2
    assert [row["lineage"]["steps"] for row in scene.get("/datasets").json()["items"]] == [5, 5]
    assert scene.get("/datasets", "math/easy@3").status_code == 404
    assert scene.get("/datasets", "math/easy@x").status_code == 422


def test_stats(scene: Scene) -> None:
    found = scene.get("/stats").json()
    assert found["steps"]["steps"] == 6 and found["steps"]["last_hour"] == 0
    assert found["steps"]["by_source"] == [{"source": "engine", "steps": 5}, {"source": None, "steps": 1}]
    assert {"status": "truncated", "steps": 1} in found["steps"]["by_status"]
    assert found["steps"]["prompt_tokens"] == 2 + 4 + 6 + 6 + 2
    assert found["trajectories"] == {
        "trajectories": 2, "open": 0, "completed": 2, "failed": 0, "incomplete": 0,
        "rewarded": 2, "trainable_steps": 5, "response_tokens": 5,
    }  # fmt: skip
    assert found["groups"] == {"groups": 1, "ready": 1}


@pytest.mark.parametrize("path", ["/steps", "/trajectories", "/groups", "/datasets"])
@pytest.mark.parametrize("name", ["none/such", "' OR 1=1 --", "ü", " ", "x" * 5000])
def test_what_is_not_there(scene: Scene, path: str, name: str) -> None:
    answer = scene.get(path, name)
    assert answer.status_code == (422 if path == "/datasets" and (name == " " or len(name) > 200) else 404)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (
        answer.status_code == 422
        or f"/api/v1/{'datasets' if path == '/datasets' else 'flush'}" in answer.json()["detail"]
    )
    assert len(json.dumps(answer.json())) < 1000


@pytest.mark.parametrize("path", ["/steps", "/trajectories", "/groups"])
def test_an_id_that_none_can_be(scene: Scene, path: str) -> None:
    assert scene.http.get(f"/api/v1{path}/a%00b").status_code == 422
    assert scene.http.get(f"/api/v1{path}/").status_code == 404


@pytest.mark.parametrize(
    "key",
    [
        [2**63 - 1, "a", 2**63 - 1, "x"],
        [2**63, "a", 1, "x"],
        [1, "'", 1, "x'"],
        [1, "a", 1, "\ud800"],
        [1, "\0", 1, "x"],
    ],
)
def test_a_cursor_that_somebody_made_up(scene: Scene, key: list[str | int]) -> None:
    assert scene.get("/steps", cursor=opaque(key)).status_code in (200, 422)
    answer = scene.get("/stream", cursor=opaque([*key[:3], 0, key[3]]), follow=False)
    assert answer.status_code == 422 or (key[3] == "x'" and "event: problem" not in answer.text)


def test_a_trace_and_what_was_captured_know_each_other(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    asked = {"messages": [{"role": "user", "content": "Hi"}], "response_id": "chatcmpl-1"}
    traced = {**asked, "metadata": {"otlp": {"trace_id": "t"}}, "trainable": False, "untrainable_reason": "a trace"}
    scene.put("/steps", *({**asked, "step_id": f"call.{choice}", "response": f"y{choice}"} for choice in range(2)))
    scene.put("/steps", *({**traced, "step_id": f"t.s.{choice}", "response": f"y{choice}"} for choice in range(2)))
    scene.put("/steps", {**asked, "response_id": "chatcmpl-2", "step_id": "other.0", "response": "y"})
    scene.commit()
    found = {id_: scene.get("/steps", id_).json()["lineage"]["same_answer"] for id_ in ("call.1", "t.s.1", "other.0")}
    assert found == {"call.1": ["t.s.1"], "t.s.1": ["call.1"], "other.0": []}
    scene.close()
