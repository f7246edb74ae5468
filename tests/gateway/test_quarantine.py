"""What could not be read: listed, shown, and read again by a version that can, once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.scene import Scene

from stepwell.exchange import Unparseable

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
ANSWER = {"id": "c", "object": "chat.completion", "model": "m", "choices": [CHOICE]}


def call(id_: str, answer: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {"model": "m", "messages": [{"role": "user", "content": id_}]}
    return {
        "exchange_id": id_,
        "url": "https://api.openai.com/v1/chat/completions",
        "request_body": json.dumps(asked),
        "status": 200,
        "response_body": json.dumps(ANSWER) if answer is None else answer,
        "started_ns": 1,
        "finished_ns": 2,
        "trajectory_id": "t",
        **more,
    }


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def ids(scene: Scene, **asked: Any) -> list[str]:
    return [row["exchange_id"] for row in scene.get("/quarantine", **asked).json()["items"]]


def reparse(scene: Scene, id_: str) -> Any:
    answer = scene.http.post(f"/api/v1/quarantine/{id_.replace('/', '%2F')}/reparse")
    assert answer.status_code == 200, answer.text
    return answer.json()


def state(scene: Scene) -> tuple[str, int]:
    [row] = scene.get("/trajectories", ids=["t"]).json()["items"]
    assert scene.get("/trajectories", "t").json()["state"] == row["state"]
    return row["state"], row["steps"]


def test_what_could_not_be_read_can_be_once_a_version_can(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(_: Any) -> Any:
        raise Unparseable("this version knows nothing of it")

    scene.put("/steps", {"step_id": "first", "trajectory_id": "t", "prompt_ids": [1], "response_ids": [2]})
    with monkeypatch.context() as patched:
        patched.setattr("stepwell.warehouse._parse.records.parse", old)
        scene.put("/exchanges", call("x/1"), call("x/2", "no JSON at all", trajectory_id="u"))
        scene.http.post("/api/v1/trajectories/t/complete")
        scene.commit()
    assert ids(scene) == ["x/2", "x/1"] and ids(scene, order="oldest", limit=1) == ["x/1"]
    assert ids(scene, trajectory_id="u") == ["x/2"] and ids(scene, reason="KNOWS nothing") == ["x/2", "x/1"]
    assert ids(scene, reason="knows all") == ids(scene, dialect="anthropic.messages") == []
    page = scene.get("/quarantine", limit=1).json()
    assert ids(scene, limit=1, cursor=page["next"]) == ["x/1"]
    [row] = scene.get("/quarantine", trajectory_id="t").json()["items"]
    assert row["request_bytes"] == len(call("x/1")["request_body"]) and row["dialect"] == "openai.chat"
    shown = scene.get("/quarantine", "x/1").json()
    assert json.loads(shown["response"]["body"]) == ANSWER and shown["reason"] == "this version knows nothing of it"
    assert state(scene) == ("incomplete", 1) and scene.get("/stats").json()["quarantined"] == 2

    assert reparse(scene, "x/1") == {
        "exchange_id": "x/1",
        "outcome": "accepted",
        "reason": None,
        "steps": ["x/1.0"],
        "duplicate": False,
    }
    assert reparse(scene, "x/1")["duplicate"]  # what waits in the spool is not there twice
    unread = reparse(scene, "x/2")
    assert unread["outcome"] == "unreadable" and unread["reason"] and unread["steps"] == []
    scene.commit()
    assert ids(scene) == ["x/2"] and state(scene) == ("completed", 2)
    step = scene.get("/steps", "x/1.0").json()
    assert (step["trajectory_id"], step["response"]["content"][0]["text"]) == ("t", "ok")
    for path in ("x/1", "nobody"):
        assert scene.get("/quarantine", path).status_code == 404
        assert scene.http.post(f"/api/v1/quarantine/{path.replace('/', '%2F')}/reparse").status_code == 404


def test_read_again_by_two_it_is_there_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def old(_: Any) -> Any:
        raise Unparseable("not yet")

    with monkeypatch.context() as patched:
        patched.setattr("stepwell.warehouse._parse.records.parse", old)
        scene.put("/exchanges", call("x"))
        scene.commit()
    for version in ("1", "2"):  # of which the second asked before the first was committed
        monkeypatch.setattr("stepwell.gateway._reparse.VERSION", version)
        assert not reparse(scene, "x")["duplicate"]
        if version == "2":
            scene.commit()
    found = scene.warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist()
    events = scene.warehouse.query("SELECT event_id FROM events WHERE kind = 'call.read'")["event_id"].to_pylist()
    assert (found, events) == (["x.0"], ["x.read"])
    scene.warehouse.summarise()
    assert state(scene) == ("open", 1) and ids(scene) == []


def test_what_is_no_call_says_so(scene: Scene) -> None:
    from stepwell.spool import Entry, Spool

    with Spool(scene.spool / "other.db") as spool:
        spool.append([Entry("odd", "odd", b"{}", b"\xff\x00")])
    scene.commit()
    assert reparse(scene, "odd")["outcome"] == "no_call"
    assert scene.get("/quarantine", "odd").json()["response"]["body_b64"] == "/wA="
