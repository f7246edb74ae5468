"""One judgement of many steps: exactly those of the filter, once, by somebody; and exactly that is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.rollouts import GROUPS, every, name_of, roll_out, turns_of
from tests.gateway.scene import Scene

from stepwell.errors import SpoolFull
from stepwell.gateway import _bulk_store, _bulk_work
from stepwell.gateway._bulk_store import Judgements
from stepwell.gateway._keeper import Keeper

ALL = sorted(name_of(*one) for one in every())


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    roll_out(scene)
    yield scene
    scene.close()


@pytest.fixture(scope="module", name="told")
def _told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """In which nothing is judged."""
    scene = Scene(tmp_path_factory.mktemp("told"))
    roll_out(scene)
    yield scene
    scene.close()


def judge(scene: Scene, feedback: dict[str, Any], key: str | None = None, **more: Any) -> dict[str, Any]:
    headers = {} if key is None else {"idempotency-key": key}
    answer = scene.http.post("/api/v1/feedback/bulk", json={"feedback": feedback, **more}, headers=headers)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def undo(scene: Scene, id_: str, **more: Any) -> dict[str, Any]:
    answer = scene.http.post(f"/api/v1/feedback/undo/{id_}", **more)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def labelled(scene: Scene, label: str) -> list[str]:
    scene.commit()
    found = scene.warehouse.query(f"SELECT step_id FROM steps WHERE list_contains(labels, '{label}') ORDER BY step_id")
    names: list[str] = found["step_id"].to_pylist()
    return names


def events(scene: Scene, where: str = "author = 'jo'") -> list[dict[str, Any]]:
    scene.commit()
    found: list[dict[str, Any]] = scene.warehouse.query(
        f"SELECT * FROM events WHERE {where} ORDER BY event_id"
    ).to_pylist()
    return found


GOOD = {"label": "good", "name": "quality", "author": "jo"}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [({"filter": {"group_id": "g1"}}, [name for name in ALL if name.startswith("g1")]),
     ({"filter": {"reward_min": 0.5, "where": "turn > 0"}}, [n for n in ALL if "m1." in n and not n.endswith(".0")]),
     ({"filter": {"where": "true", "trainable": True}}, ["e.0", *ALL]),
     ({"ids": ["g0m0.0", "nobody", "g1m1.0", "g0m0.0"]}, ["g0m0.0", "g1m1.0"])],
)  # fmt: skip
def test_the_steps_of_a_filter_and_no_others(scene: Scene, chosen: dict[str, Any], names: list[str]) -> None:
    said = judge(scene, GOOD, **chosen)
    assert said == {"undo": said["undo"], "steps": len(names), "accepted": len(names)} and said["undo"]
    assert labelled(scene, "good") == names
    kept = events(scene)
    assert {row["author"] for row in kept} == {"jo"} and len(kept) == len(names)
    assert sorted(row["target_id"] for row in kept) == names and all(said["undo"] in row["payload"] for row in kept)


def test_the_steps_of_that_moment(scene: Scene) -> None:
    """What comes later is not judged, also when the request comes again; what was judged stays judged when it fits no more."""
    scene.put("/feedback", {"step_id": "g0m0.0", "label": "odd"})
    scene.commit()
    first = judge(scene, GOOD, key="k", filter={"label": "odd"})
    scene.put("/feedback", {"step_id": "g0m0.0", "retract": "label"}, {"step_id": "g1m0.0", "label": "odd"})
    scene.commit()
    assert judge(scene, GOOD, key="k", filter={"label": "odd"}) == first
    assert labelled(scene, "good") == ["g0m0.0"]


def test_it_goes_on_where_it_failed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bulk_work, "_AT_ONCE", 5)
    real, calls = Keeper.keep, [0]

    async def keep(self: Keeper, entries: Any) -> list[bool]:
        calls[0] += 1
        if calls[0] == 3:
            raise SpoolFull("the spool is full")
        return await real(self, entries)

    monkeypatch.setattr(Keeper, "keep", keep)
    body = {"feedback": GOOD, "filter": {"split": "train"}, "expect": len(ALL) + 1}
    headers = {"idempotency-key": "k"}
    failed = scene.http.post("/api/v1/feedback/bulk", json=body, headers=headers)
    assert failed.status_code == 503 and failed.headers["retry-after"] and "10 are judged" in failed.json()["detail"]
    assert len(labelled(scene, "good")) == 10
    scene.put("/steps", {"step_id": "late", "prompt_ids": [1], "response_ids": [2]})  # no step of that moment
    scene.commit()
    again = scene.http.post("/api/v1/feedback/bulk", json=body, headers=headers).json()
    assert again["undo"] == failed.json()["undo"] and again["steps"] == len(ALL) + 1
    assert again["accepted"] == again["steps"] - 10
    assert labelled(scene, "good") == [*ALL, "text.0"]
    assert len(events(scene)) == len(ALL) + 1
    replayed = scene.http.post("/api/v1/feedback/bulk", json=body, headers=headers)
    assert replayed.json() == again and replayed.headers["idempotency-replayed"] == "true"


def test_exactly_that_is_undone(scene: Scene) -> None:
    """Not what the same author said before, meanwhile or elsewhere, nor others."""
    before = {"step_id": "g0m0.0", "label": "bad", "name": "quality", "author": "jo"}
    scene.put("/feedback", before, {"step_id": "g0m1.0", "label": "fine", "name": "quality", "author": "al"})
    scene.commit()
    said = judge(scene, GOOD, filter={"group_id": "g0"})
    scene.put("/feedback", {"step_id": "g0m1.0", "label": "later", "name": "quality", "author": "jo"})
    scene.put("/feedback", {"step_id": "g1m0.0", "label": "good", "name": "quality", "author": "jo"})
    assert len(labelled(scene, "good")) == said["steps"]  # one has a later word, one is another step
    taken = undo(scene, said["undo"], json={"author": "al"})
    assert taken == {"undo": said["undo"], "steps": said["steps"], "accepted": said["steps"]}
    assert labelled(scene, "good") == ["g1m0.0"]
    assert (labelled(scene, "bad"), labelled(scene, "fine"), labelled(scene, "later")) == (
        ["g0m0.0"], ["g0m1.0"], ["g0m1.0"])  # fmt: skip
    undoing = events(scene, "kind = 'undo'")
    assert {row["author"] for row in undoing} == {"al"} and len(undoing) == said["steps"]
    assert sorted(row["text"] for row in undoing) == sorted(f"{said['undo']}.{n}" for n in range(said["steps"]))
    assert undo(scene, said["undo"])["accepted"] == 0
    assert len(events(scene, "kind = 'undo'")) == said["steps"]


def test_it_is_undone_before_it_is_committed(scene: Scene) -> None:
    said = judge(scene, GOOD, filter={"where": "true"})
    undo(scene, said["undo"])
    assert labelled(scene, "good") == [] and len(events(scene)) == said["steps"]


def test_trainable_off_and_on(scene: Scene) -> None:
    """The listing, the views and summaries know it, and a reader leaves such steps out; a version before still has them."""
    version = scene.commit()
    off = judge(scene, {"trainable": False, "author": "jo", "comment": "leaks"}, filter={"group_id": "g2"})
    scene.commit()
    sql = "SELECT count(*) AS n FROM steps WHERE trainable AND split = 'train'"
    assert scene.warehouse.query(sql).to_pylist() == [{"n": len(ALL) - off["steps"]}]
    assert scene.warehouse.query(sql, at=version).to_pylist() == [{"n": len(ALL)}]
    listed = scene.get("/steps", trainable=False, group_id="g2", count=True).json()
    assert listed["count"]["count"] == off["steps"]
    assert {row["untrainable_reason"] for row in listed["items"]} == {"set not trainable by jo: leaks"}
    assert scene.get("/trajectories", "g2m0").json()["trainable_steps"] == 0
    asked = {"where": "split = 'train'"}
    preview = scene.http.post("/api/v1/batches/preview", json=asked).json()
    assert preview["trained"] == len(ALL) - off["steps"] and preview["totals"]["groups"] == GROUPS - 1
    assert off["steps"] in [n for reason, n in preview["left_out"].items() if "set not trainable by jo" in reason]
    on = judge(scene, {"trainable": True, "author": "jo"}, filter={"trajectory_id": "g2m1"})
    scene.commit()
    assert on["steps"] == turns_of(2, 1) == scene.get("/trajectories", "g2m1").json()["trainable_steps"]
    undo(scene, on["undo"])
    undo(scene, off["undo"])
    scene.commit()
    assert scene.warehouse.query(sql).to_pylist() == [{"n": len(ALL)}]
    assert scene.get("/steps", trainable=True, split="train", count=True).json()["count"]["count"] == len(ALL)


def test_judgements_are_listed(scene: Scene) -> None:
    first = judge(scene, GOOD, filter={"group_id": "g0"})
    second = judge(scene, {"score": 0.5, "author": "al"}, ids=["g1m0.0"])
    undo(scene, first["undo"])
    newest, oldest = scene.get("/feedback/bulk").json()["items"]
    assert (newest["undo"], newest["steps"], newest["undone_at"]) == (second["undo"], 1, None)
    assert (oldest["undo"], oldest["feedback"], bool(oldest["undone_at"])) == (first["undo"], GOOD, True)
    assert len(scene.get("/feedback/bulk", limit=1).json()["items"]) == 1


def test_nothing_is_selected(told: Scene) -> None:
    assert judge(told, GOOD, filter={"group_id": "nothing"}) == {"undo": None, "steps": 0, "accepted": 0}
    assert told.get("/feedback/bulk").json()["items"] == []


@pytest.mark.parametrize(
    ("more", "field"),
    [({"feedback": {"label": "x"}, "filter": {"group_id": "g0"}}, "feedback.author"),
     ({"feedback": {**GOOD, "step_id": "s"}, "filter": {"group_id": "g0"}}, "feedback.step_id"),
     ({"feedback": {"author": "jo", "undo": "e"}, "filter": {"group_id": "g0"}}, "feedback.undo"),
     ({"feedback": {"author": "jo"}, "filter": {"group_id": "g0"}}, "feedback.reward"),
     ({"feedback": {"author": "jo", "rating": 7, "scale": 5}, "filter": {"group_id": "g0"}}, "feedback.scale"),
     ({"feedback": {"author": "jo", "reward": 1, "speed": 2}, "filter": {"group_id": "g0"}}, "feedback.speed"),
     ({"feedback": GOOD}, "filter"), ({"feedback": GOOD, "filter": {}}, "filter"),
     ({"feedback": GOOD, "filter": {"group_id": "g0"}, "ids": ["a"]}, "filter"),
     ({"feedback": GOOD, "filter": {"groupid": "g0"}}, "filter.groupid"), ({"feedback": GOOD, "ids": []}, "ids"),
     ({"feedback": GOOD, "filter": {"where": "nothing > 1"}}, "where"), ({"feedback": GOOD, "filter": {"where": "x ="}}, "where"),
     ({"feedback": GOOD, "filter": {"group_id": "g0", "where": "true) OR (true"}}, "where"),
     ({"feedback": {**GOOD, "metadata": {"x": "y" * 20_000}}, "filter": {"group_id": "g0"}}, "feedback"),
     ({"feedback": GOOD, "filter": {"where": "true"}, "limit": 5}, "limit"),
     ({"feedback": GOOD, "filter": {"group_id": "g0"}, "expect": 1}, "expect"),
     ({"feedback": GOOD, "filter": {"where": "true"}, "limit": 50_001}, "limit"), ({"filter": {"where": "true"}}, "feedback")],
)  # fmt: skip
def test_what_is_refused_judges_nothing(told: Scene, more: dict[str, Any], field: str) -> None:
    answer = told.http.post("/api/v1/feedback/bulk", json=more)
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == field and answer.json()["detail"]
    assert events(told) == [] and told.get("/feedback/bulk").json()["items"] == []


def test_the_limit_says_how_many(scene: Scene) -> None:
    body = {"feedback": GOOD, "filter": {"where": "true"}, "limit": 5}
    assert scene.http.post("/api/v1/feedback/bulk", json=body).json()["steps"] == len(ALL) + 2
    assert (
        judge(scene, GOOD, filter={"where": "true"}, limit=len(ALL) + 2, expect=len(ALL) + 2)["steps"] == len(ALL) + 2
    )


def test_what_is_not_there_cannot_be_undone(scene: Scene) -> None:
    answer = scene.http.post("/api/v1/feedback/undo/nothing")
    assert answer.status_code == 404 and "feedback/bulk lists" in answer.json()["detail"]


def test_judgements_outlast_the_process(tmp_path: Path) -> None:
    first = Judgements(tmp_path / "bulk.db")
    made = first.keep("a", GOOD, ["s1", "s2"])
    assert first.keep("a", {}, ["s3"]) == made, "what was chosen first counts"
    first.undone("a")
    first.close()
    second = Judgements(tmp_path / "bulk.db")
    found = second.get("a")
    assert found is not None and (found.steps, found.said, found.undone is not None) == (("s1", "s2"), GOOD, True)
    second.close()


def test_old_and_large_ones_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    kept = Judgements(clock=lambda: now[0])
    kept.keep("old", GOOD, ["s"])
    now[0] = _bulk_store.KEPT + 1
    kept.keep("new", GOOD, ["s"])
    assert [one.id for one in kept.newest(9)] == ["new"]
    monkeypatch.setattr(_bulk_store, "MOST_BYTES", 1)
    kept.keep("newer", GOOD, ["s"])
    assert [one.id for one in kept.newest(9)] == ["newer"] and kept.get("new") is None
    kept.close()
