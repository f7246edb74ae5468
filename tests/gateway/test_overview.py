"""What is counted, drawn and warned of: against what the test submitted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from tests.gateway.peopled import BEGUN, people
from tests.gateway.scene import Scene
from tests.gateway.test_quarantine import call

from stepwell.gateway import _read_stats
from stepwell.gateway._keeper import Keeper
from stepwell.gateway._read_listed import Listed
from stepwell.gateway._read_rows import Rows
from stepwell.gateway._warehouse import LazyWarehouse
from stepwell.spool import Entry, Spool


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("overview"))
    yield scene
    scene.close()


@pytest.fixture(scope="module", name="steps")
def _steps(scene: Scene) -> list[dict[str, Any]]:
    return people(scene)


def test_stats_count_what_was_submitted(scene: Scene, steps: list[dict[str, Any]]) -> None:
    now = datetime.now(UTC)
    times = {"started_at": now.isoformat(), "finished_at": now.isoformat()}
    tokens = {"prompt_ids": [1], "response_ids": [2], "dialect": "openai.chat"}
    usage = {"prompt_tokens": 30, "completion_tokens": 12}
    scene.put("/steps", {"step_id": "now", "trajectory_id": "t9", "model": "m0", "usage": usage, **times, **tokens})
    scene.put("/steps", {"step_id": "bad", "trajectory_id": "t9", "model": "m0", "status": "error", **times, **tokens})
    scene.commit()
    said = scene.get("/stats").json()
    counted = said["steps"]
    assert counted["steps"] == 42 and counted["last_minute"] == 2 and counted["last_hour"] == 2
    assert counted["tokens_last_minute"] == 42 + 2 and counted["errors_last_minute"] == 1
    assert counted["calls_last_minute"] == 2
    assert counted["errors"] == sum(step["status"] == "error" for step in steps) + 1
    assert counted["output_tokens"] == sum(step["output_tokens"] or 0 for step in steps) + 12 + 1
    by_agent = {row["agent"]: row["steps"] for row in counted["by_agent"]}
    assert by_agent == {None: 13 + 2, "coder": 13, "critic": 13, "codex": 1}
    newest, *_, last = counted["by_policy_version"]
    assert (newest["policy"], newest["policy_version"]) == ("pi", 7) and newest["steps"] == 5
    assert last == {"policy": None, "policy_version": None, "steps": 2}
    assert said["trajectories"]["trajectories"] == 10 and said["trajectories"]["completed"] == 8
    assert said["groups"] == {"groups": 3, "ready": 1} and said["quarantined"] == 0
    today = said["today"]
    assert (today["steps"], today["calls"], today["trajectories"], today["errors"]) == (2, 2, 1, 1)
    assert (today["input_tokens"], today["output_tokens"]) == (30 + 1, 12 + 1)
    rewards = 9 + sum(step["own"] is not None for step in steps)
    assert (today["rewards"], today["completed"], today["by_kind"]["label"]) == (rewards, 8, 5)
    assert today["events"] == sum(today["by_kind"].values())
    assert said["spool"]["lag"] == 0 and said["spool"]["alive"] == 1 and not said["spool"]["ingest_alive"]


def test_stats_name_the_values_of_most_steps(scene: Scene, steps: list[dict[str, Any]], monkeypatch: Any) -> None:
    monkeypatch.setattr(_read_stats, "_MOST", 2)
    listed = Listed(Rows(LazyWarehouse(lambda: scene.warehouse)), scene.app.state.listing)
    said = _read_stats._stats(listed, Keeper(scene.writer, scene.spool), datetime.now(UTC))["steps"]
    assert [row["model"] for row in said["by_model"]] == ["m0", "m1"]
    assert said["by_model"][1]["steps"] == sum(step["model"] == "m1" for step in steps)
    assert said["steps"] == scene.get("/steps", count="true").json()["count"]["count"]
    assert len(said["by_agent"]) == len(said["by_policy_version"]) == 2


def series(scene: Scene, **asked: Any) -> dict[str | None, list[Any]]:
    answer = scene.get("/stats/series", until=(BEGUN + timedelta(minutes=39)).isoformat(), **asked).json()
    start = datetime.fromisoformat(answer["start"])
    assert start == BEGUN + timedelta(minutes=40) - timedelta(seconds=answer["bucket_s"] * asked["buckets"])
    return {row["key"]: row["values"] for row in answer["series"]}


def test_series_are_of_pieces_of_time(scene: Scene, steps: list[dict[str, Any]]) -> None:
    def expected(value: Any, fits: Any = lambda _: True) -> list[Any]:
        return [sum(value(s) for s in steps if fits(s) and s["number"] // 10 == piece) for piece in range(4)]

    assert series(scene, bucket=600, buckets=4) == {None: [10, 10, 10, 10]}
    found = series(scene, of="output_tokens", by="model", bucket=600, buckets=4)
    for model in ("m0", "m1", "m2"):
        assert found[model] == expected(lambda s: s["output_tokens"] or 0, lambda s, m=model: s["model"] == m)
    assert series(scene, of="errors", bucket=600, buckets=4) == {None: expected(lambda s: s["status"] == "error")}
    [mean] = series(scene, of="reward_mean", bucket=1200, buckets=3).values()
    rewards = [s["reward"] for s in steps if s["number"] < 20 and s["reward"] is not None]
    assert mean[0] is None and mean[1] == pytest.approx(sum(rewards) / len(rewards))
    versions = series(scene, by="policy_version", bucket=600, buckets=4)
    assert versions["7"] == expected(lambda _: 1, lambda s: s["policy_version"] == 7)


def test_series_of_many_values_have_the_others_together(
    scene: Scene, steps: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwell.gateway._read_series._SHOWN", 1)
    answer = scene.get(
        "/stats/series", by="model", bucket=600, buckets=4, until=(BEGUN + timedelta(minutes=39)).isoformat()
    )
    assert [(row["key"], row["other"], sum(row["values"])) for row in answer.json()["series"]] == [
        ("m0", False, 14),
        (None, True, 26),
    ]
    assert scene.get("/stats/series", bucket=604_800, buckets=500).status_code == 422


def test_attention_names_what_is_wrong(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    try:
        assert scene.get("/attention").json()["items"] == []
    finally:
        scene.close()
    (tmp_path / "more").mkdir()
    scene = Scene(tmp_path / "more")
    try:
        people(scene)
        with Spool(scene.spool / "proxy.db") as spool:
            spool.add_lost(3)
            spool.append([Entry("odd", "odd", b"{}", b"bytes")])
        scene.commit()
        with Spool(scene.spool / "import.db") as spool:
            spool.append([Entry("waits", "odd", b"{}", b"bytes")])
        found = {row["kind"]: (row["severity"], row["count"]) for row in scene.get("/attention").json()["items"]}
        assert found == {
            "captures_lost": ("error", 3),
            "ingest_down": ("error", 1),
            "quarantined": ("warning", 1),
            "missing_rewards": ("warning", 1),
            "stalled_groups": ("warning", 2),
            "zero_variance_groups": ("note", 1),
        }
        rows = {row["name"]: row for row in scene.get("/producers").json()["items"]}
        assert {name: (row["kind"], row["alive"], row["lag"], row["lost"]) for name, row in rows.items()} == {
            "gateway.db": ("gateway", True, 0, 0),
            "proxy.db": ("proxy", False, 0, 3),
            "import.db": ("import", False, 1, 0),
        }
        assert rows["import.db"]["last_at"] is not None and rows["import.db"]["waited_s"] > 0
    finally:
        scene.close()


def test_what_is_warned_of_is_what_the_link_shows(tmp_path: Path) -> None:
    """Also of a trajectory that lost a call: without a reward it keeps its group from being ready like any other."""
    scene = Scene(tmp_path)
    try:
        people(scene)
        scene.put("/exchanges", call("c1", trajectory_id="lost"), call("c2", "no answer", trajectory_id="lost"))
        scene.http.post("/api/v1/trajectories/lost/complete")
        scene.commit()
        items = {row["kind"]: row for row in scene.get("/attention").json()["items"]}
        assert items["missing_rewards"]["count"] == 2 and items["incomplete"]["count"] == 1
        for kind, path in (
            ("missing_rewards", ""),
            ("incomplete", ""),
            ("stalled_groups", "curate/"),
            ("zero_variance_groups", "curate/"),
        ):
            view, _, asked = items[kind]["link"].removeprefix(path).partition("?")
            shown = scene.get(f"/{view}", **dict(parse_qsl(asked)), count="true").json()["count"]["count"]
            assert shown == items[kind]["count"], kind
    finally:
        scene.close()


def test_who_submits_is_noted_and_who_reads_is_not(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    try:
        for agent, body in (
            ("shop/1", {"prompt_ids": [1], "response_ids": [2]}),
            ("shop/1", {"nothing": 1}),
            ("desk/2", {"response": "x"}),
        ):
            scene.http.post("/api/v1/steps", json=body, headers={"user-agent": agent})
        said = scene.get("/producers").json()
        clients = [(one["user_agent"], one["requests"], one["refused"]) for one in said["clients"]]
        assert clients[1:] == [("shop/1", 2, 1)] and clients[0][0] == "desk/2"
        assert said["totals"]["accepted"] == sum(row["accepted"] for row in said["items"]) >= 1
        scene.http.post("/api/v1/steps", json={}, headers={"authorization": "Bearer no", "user-agent": "stranger"})
        for path in ("/", "/assets/x", "/metrics", "/api/v1/webhooks/x"):  # where no token is asked for
            assert scene.http.post(path, headers={"user-agent": f"stranger {path}"}).status_code >= 400
        assert len(scene.get("/producers").json()["clients"]) == 2
    finally:
        scene.close()
