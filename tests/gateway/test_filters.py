"""Filters, orders and counts of the lists, over a real warehouse: what they find is what Python finds in the same data."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.peopled import BEGUN, NEWEST, people
from tests.gateway.scene import Scene, step

from stepwell.gateway._listing import LISTED
from stepwell.gateway._problems import Problem
from stepwell.gateway._warehouse import LazyWarehouse


class Peopled(Scene):
    steps: list[dict[str, Any]]

    def pages(self, path: str, **parameters: Any) -> list[dict[str, Any]]:
        """All rows, page by page."""
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            answer = self.get(path, **parameters, **cursor)
            assert answer.status_code == 200, answer.text
            found += answer.json()["items"]
            if answer.json()["next"] is None:
                return found
            cursor = {"cursor": answer.json()["next"]}


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peopled]:
    scene = Peopled(tmp_path_factory.mktemp("peopled"))
    scene.steps = people(scene)
    yield scene
    scene.close()


def lag(step: dict[str, Any]) -> int:
    return NEWEST[step["policy"]] - int(step["policy_version"])


def at(minutes: int) -> str:
    return (BEGUN + timedelta(minutes=minutes)).isoformat()


FILTERS: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    ({"model": "m1"}, lambda s: s["model"] == "m1"),
    ({"agent": "critic"}, lambda s: s["agent"] == "critic"),
    ({"agent": "codex"}, lambda s: s["number"] == 0),
    ({"policy": "rho", "policy_version_min": 1, "policy_version_max": 2}, lambda s: s["policy"] == "rho" and 1 <= s["policy_version"] <= 2),
    ({"policy_lag_min": 1, "policy_lag_max": 3}, lambda s: 1 <= lag(s) <= 3),
    ({"policy_lag_min": 4}, lambda s: lag(s) >= 4),
    ({"status": "error"}, lambda s: s["status"] == "error"),
    ({"group_id": "g'1"}, lambda s: s["group_id"] == "g'1"),
    ({"split": "eval"}, lambda s: s["split"] == "eval"),
    ({"label": "good"}, lambda s: s["label"] == "good"),
    ({"tag": "nightly"}, lambda s: s["tag"] == "nightly"),
    ({"trainable": "false"}, lambda s: not s["trainable"]),
    ({"has_reward": "false"}, lambda s: s["reward"] is None),
    ({"reward_min": 0.25, "reward_max": 0.75}, lambda s: s["reward"] is not None and 0.25 <= s["reward"] <= 0.75),
    ({"state": "open"}, lambda s: s["state"] == "open"),
    ({"ready": "true"}, lambda s: s["group_id"] == "g'0"),
    ({"zero_variance": "true"}, lambda s: s["group_id"] == "g'0"),
    ({"ready": "false"}, lambda s: s["group_id"] in ("g'1", "g'2")),
    ({"since": at(5), "until": at(9)}, lambda s: 5 <= s["number"] < 9),
    ({"ids": ["s'03", "s'17", "nobody"]}, lambda s: s["number"] in (3, 17)),
    ({"q": "papaya LOOK"}, lambda s: s["word"] == "papaya"),
    ({"q": "number13"}, lambda s: s["number"] == 13),
    ({"q": "s'0"}, lambda s: s["number"] < 10),
    ({"q": "trombone"}, lambda s: False),
    ({"where": "output_tokens > 4 AND agent = 'coder'"}, lambda s: (s["output_tokens"] or 0) > 4 and s["agent"] == "coder"),
    ({"where": "metadata ->> 'agent' = 'coder' OR step_id = 's''00'"}, lambda s: s["agent"] == "coder" or not s["number"]),
    ({"where": "response_ids[1] = 3 -- all", "model": "m2"}, lambda s: s["model"] == "m2"),
    ({"superseded": "true"}, lambda s: False),
    ({"drift": "false", "side": "false", "refusal": "false", "tool_error": "false", "truncated": "false"}, lambda s: True),
]  # fmt: skip


@pytest.mark.parametrize(("given", "fits"), FILTERS, ids=[str(given)[:40] for given, _ in FILTERS])
def test_a_filter_finds_what_fits(
    scene: Peopled, given: dict[str, Any], fits: Callable[[dict[str, Any]], bool]
) -> None:
    right = [step["step_id"] for step in scene.steps if fits(step)]
    assert [row["step_id"] for row in scene.pages("/steps", order="oldest", limit=15, **given)] == right
    answer = scene.get("/steps", count="true", limit=1, **given).json()
    assert (answer["count"]["count"], answer["count"]["exact"]) == (len(right), True)
    assert [row["step_id"] for row in answer["items"]] == right[-1:]


@pytest.mark.parametrize(("column", "limit"), [("reward", 7), ("output_tokens", 3), ("agent", 9), ("finished_at", 20)])
def test_rows_without_a_value_come_last_in_either_direction(scene: Peopled, column: str, limit: int) -> None:
    for sort, backwards in ((column, False), (f"-{column}", True)):
        found = scene.pages("/steps", sort=sort, limit=limit)
        ids = [row["step_id"] for row in found]
        assert sorted(ids) == [step["step_id"] for step in scene.steps], "none is skipped, none is given twice"
        agent = {0: "codex"} if column == "agent" else {}
        values = [agent.get(int(id_[2:]), scene.steps[int(id_[2:])][column]) for id_ in ids]
        there = [value for value in values if value is not None]
        assert values == there + [None] * (len(values) - len(there))
        assert there == sorted(there, reverse=backwards)


def test_equal_values_are_in_the_order_of_commit(scene: Peopled) -> None:
    found = [row["step_id"] for row in scene.pages("/steps", sort="-model", limit=9)]
    assert found == [s["step_id"] for model in ("m2", "m1", "m0") for s in reversed(scene.steps) if s["model"] == model]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"where": "output_tokens >"}, "where"),
        ({"where": "nothing = 1"}, "where"),
        ({"where": "CAST(model AS INTEGER) = 1"}, "where"),
        ({"where": "step_id IN (SELECT step_id FROM steps)"}, "where"),
        ({"where": "true) UNION SELECT 1 --"}, "where"),
        ({"where": "true); DROP TABLE steps; SELECT (1"}, "where"),
        ({"where": "row_number() OVER () = 1"}, "where"),
        ({"where": "true) OR (true", "model": "m1"}, "where"),
        ({"where": "len(range(3000000000)) > 1"}, "where"),
        ({"where": "sleep_ms(1) IS NULL"}, "where"),
        ({"where": "messages LIKE '%kiwi%'"}, "where"),
        ({"sort": "logprobs"}, "sort"),
        ({"reward_min": "nan"}, "reward_min"),
        ({"since": "yesterday"}, "since"),
        ({"state": "asleep"}, "state"),
    ],
)
def test_what_cannot_be_is_refused_by_name(scene: Peopled, given: dict[str, Any], field: str) -> None:
    answer = scene.get("/steps", **given)
    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text
    assert scene.get("/steps", model="m1", count="true").json()["count"]["count"] == 13  # and nothing came of it


def test_a_group_is_told_of_by_all_of_its_members(scene: Peopled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.gateway._read_trajectories._SHOWN", 1)
    assert [scene.get("/groups", f"g'{number}").json()["zero_variance"] for number in range(3)] == [True, False, False]
    assert len(scene.get("/groups", "g'0").json()["members"]) == 1


def test_what_is_in_no_group_is_neither_ready_nor_not(tmp_path: Path) -> None:
    """Whether there is a group of the other kind or not."""
    scene = Scene(tmp_path)
    try:
        scene.put("/trajectories", {"trajectory_id": "t", "group_id": "g"})
        scene.put("/steps", step("grouped", "t", 0), step("alone", "u", 0))
        scene.commit()
        for given in ({"ready": "false"}, {"zero_variance": "false"}):
            assert [row["step_id"] for row in scene.get("/steps", **given).json()["items"]] == ["grouped"], given
        made = scene.http.post("/api/v1/datasets", json={"name": "d", "filter": {"zero_variance": False}})
        assert made.json()["steps"] == 1, made.text
    finally:
        scene.close()


def test_pages_go_on_behind_any_value(tmp_path: Path) -> None:
    """Also behind the longest ids there may be, and names with NUL."""
    scene = Scene(tmp_path)
    try:
        ids = [character * 256 for character in "a\U0001f600\U0001f601"]
        agents = ("a\0b", "a\0", "a")
        scene.put(
            "/steps", *(step(id_, id_, 0, metadata={"agent": agent}) for id_, agent in zip(ids, agents, strict=True))
        )
        scene.commit()
        for sort, right in (("trajectory_id", ids), ("-agent", ids), ("step_id", ids)):
            found, answer, cursor = list[str](), dict[str, Any](), dict[str, str]()
            for _ in right:
                answer = scene.get("/steps", sort=sort, limit=1, **cursor).json()
                found += [row["step_id"] for row in answer["items"]]
                cursor = {"cursor": answer["next"]}
            assert found == right and answer["next"] is None, sort
    finally:
        scene.close()


def test_whoever_searches_takes_a_turn(scene: Peopled, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that readers, however many, leave threads to those that submit."""
    monkeypatch.setattr(LazyWarehouse, "saying", lambda *_: pytest.fail("searched without a turn"))
    with monkeypatch.context() as patch:
        patch.setattr("stepwell.gateway._read_rows.Rows.turn", no_turn)
        asked = {"filter": {"q": "never asked before"}}
        for answer in (
            scene.get("/steps", **asked["filter"]),
            scene.get("/trajectories", **asked["filter"]),
            scene.get("/annotations/queue", author="a", name="n", **asked["filter"]),
            scene.http.post("/api/v1/datasets", json={"name": "d", **asked}),
            scene.http.post("/api/v1/batches/preview", json=asked),
            scene.http.post("/api/v1/feedback/bulk", json={**asked, "feedback": {"author": "a", "label": "x"}}),
        ):
            assert answer.status_code == 503, answer.text


@contextmanager
def no_turn(_: Any) -> Iterator[None]:
    raise Problem(503, "too many read")
    yield


@pytest.mark.parametrize(
    "value", [10**400, True, "x\ud800", 2**63], ids=["huge", "truth", "half a character", "beyond"]
)
def test_a_cursor_that_was_made_up_is_refused(scene: Peopled, value: Any) -> None:
    said = base64.urlsafe_b64encode(json.dumps(["reward", value, 1, "p", 1, "s"]).encode()).decode().rstrip("=")
    assert scene.get("/steps", sort="reward", cursor=said).json()["field"] == "cursor"


def test_the_listing_s_own_columns_are_known_by_their_names() -> None:
    assert "commit" in LISTED and not any('"' in name for name in LISTED)


def test_a_cursor_is_of_one_order(scene: Peopled) -> None:
    cursor = scene.get("/steps", sort="-reward", limit=2).json()["next"]
    for other in ({"sort": "reward"}, {"sort": "-model"}, {"model": "m1"}):
        answer = scene.get("/steps", cursor=cursor, **other)
        assert (answer.status_code, answer.json()["field"]) == (422, "cursor")
    assert scene.get("/steps", cursor=cursor, sort="-reward").status_code == 200


def test_trajectories_are_filtered_by_their_steps_and_their_ends(scene: Peopled) -> None:
    def ids(**given: Any) -> list[str]:
        found = [row["trajectory_id"] for row in scene.pages("/trajectories", limit=2, **given)]
        assert scene.get("/trajectories", count="true", **given).json()["count"]["count"] == len(found)
        return found

    assert ids() == [f"t{number}" for number in range(10)]
    assert ids(group_id="g'1") == ["t3", "t4", "t5"]
    assert ids(ended="false") == ["t3", "t7"] and ids(state="completed", split="eval") == ["t8"]
    assert ids(has_reward="false") == ["t4"] and ids(reward_min=0.6, reward_max=0.8) == ["t6", "t7", "t8"]
    assert ids(step_label="good") == ["t0", "t2", "t4", "t6", "t8"]
    assert ids(error="true") == sorted({f"t{n // 4}" for n in range(40) if n % 7 == 6})
    assert ids(q="number13") == ["t3"] and ids(q="t1") == ["t1"]
    assert ids(agent="codex") == ["t0"] and ids(zero_variance="true") == ["t0", "t1", "t2"]
    assert ids(policy_version_min=7) == sorted({f"t{n // 4}" for n in range(40) if n % 2 and n % 8 == 7})
    assert ids(ids=["t2", "t5"]) == ["t2", "t5"] and ids(where="steps = 4 AND errors = 2") == []
    best = [row["trajectory_id"] for row in scene.pages("/trajectories", sort="-reward", limit=3)]
    assert best == ["t2", "t1", "t0", "t9", "t8", "t7", "t6", "t5", "t3", "t4"]


def test_a_trajectory_says_what_its_steps_add_up_to(scene: Peopled) -> None:
    [row] = scene.get("/trajectories", ids=["t2"]).json()["items"]
    mine = scene.steps[8:12]
    assert row["output_tokens"] == sum(step["output_tokens"] or 0 for step in mine)
    assert row["errors"] == sum(step["status"] == "error" for step in mine)
    assert row["last_at"] == mine[-1]["finished_at"].isoformat().replace("+00:00", "Z")
    assert (row["agent"], row["model"], row["steps"]) == ("coder", "m0", 4)


def test_groups_say_what_they_wait_for(scene: Peopled) -> None:
    rows = {row["group_id"]: row for row in scene.pages("/groups", limit=1)}
    assert {id_: (row["ready"], row["zero_variance"], row["open"], row["unrewarded"], row["missing"]) for id_, row in rows.items()} == {
        "g'0": (True, True, 0, 0, 0),
        "g'1": (False, False, 1, 1, 0),
        "g'2": (False, False, 1, 0, 0),
    }  # fmt: skip
    assert [row["group_id"] for row in scene.pages("/groups", zero_variance="true")] == ["g'0"]
    assert [row["group_id"] for row in scene.pages("/groups", stalled="true")] == ["g'1", "g'2"]
    assert [row["group_id"] for row in scene.pages("/groups", sort="-reward_mean")] == ["g'0", "g'2", "g'1"]
    one = scene.get("/groups", "g'1").json()
    assert [(why["reason"], why["count"], why["trajectory_ids"]) for why in one["waits_for"]] == [
        ("open", 1, ["t3"]),
        ("unrewarded", 1, ["t4"]),
    ]
    assert not one["zero_variance"] and scene.get("/groups", "g'0").json()["zero_variance"]
    assert scene.get("/groups", "g'0").json()["waits_for"] == []
