"""The annotation queue: never what its author has judged under that name, however lately; several authors at once; pairs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.gateway.rollouts import GROUPS, MEMBERS, every, name_of, roll_out
from tests.gateway.scene import TOKEN, Scene, step

from stepwell.gateway import create_app
from stepwell.gateway._annotate import HOLD, Held
from stepwell.spool import Entry
from stepwell.warehouse import Warehouse

TRAINED = sorted(name_of(*one) for one in every())
ALL = {*TRAINED, "e.0", "text.0"}


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    roll_out(scene)
    yield scene
    scene.close()


def queue(scene: Scene, author: str = "jo", name: str = "quality", **more: Any) -> dict[str, Any]:
    answer = scene.get("/annotations/queue", author=author, name=name, **more)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def given(said: dict[str, Any]) -> list[str]:
    return [item["step_id"] for item in said["items"]]


def judge(scene: Scene, *steps: str, author: str = "jo", **more: Any) -> None:
    fields = {"author": author, **(more or {"label": "good", "name": "quality"})}
    scene.put("/feedback", *({"step_id": id_, **fields} for id_ in steps))


def test_what_was_judged_does_not_come_again(scene: Scene) -> None:
    """Neither before it is committed nor after; what others judged, or under another name, does."""
    first = queue(scene, limit=5)
    assert first["left"] == len(ALL) and len(given(first)) == 5 and first["next"]
    judge(scene, *given(first)[:3])
    judge(scene, given(first)[3], author="al")
    judge(scene, given(first)[4], author="jo", label="x", name="another")
    for _ in range(2):
        said = queue(scene, limit=500)
        assert set(given(said)) == ALL - set(given(first)[:3]) and said["left"] == len(ALL) - 3
        scene.commit()
    assert queue(scene, author="al")["left"] == len(ALL) - 1
    assert queue(scene, name="another")["left"] == len(ALL) - 1


def test_an_author_who_always_judges_what_comes_sees_all_once(scene: Scene) -> None:
    seen: list[str] = []
    while (said := queue(scene, limit=4))["items"]:
        assert said["left"] == len(ALL) - len(seen)
        seen += given(said)
        judge(scene, *given(said))
        if len(seen) % 8 == 0:
            scene.commit()
    assert sorted(seen) == sorted(ALL)


def test_a_cursor_skips(scene: Scene) -> None:
    first = queue(scene, limit=10)
    rest = queue(scene, limit=500, cursor=first["next"])
    assert set(given(first)) | set(given(rest)) == ALL and len(given(first)) + len(given(rest)) == len(ALL)
    newest = queue(scene, limit=500, order="newest")
    assert given(newest) == [*given(first), *given(rest)][::-1] and newest["next"] is None


def test_filters_say_what_is_to_be_judged(scene: Scene) -> None:
    said = queue(scene, group_id="g1", where="turn = 0")
    assert sorted(given(said)) == [name_of(1, member, 0) for member in range(MEMBERS)] and said["left"] == MEMBERS


def test_what_is_taken_back_comes_again(scene: Scene) -> None:
    judge(scene, "g0m0.0", feedback_id="f", label="good", name="quality")
    judge(scene, "g0m1.0")
    scene.commit()
    assert queue(scene)["left"] == len(ALL) - 2
    scene.put("/feedback", {"step_id": "g0m0.0", "undo": "f"})
    scene.put("/feedback", {"step_id": "g0m1.0", "retract": "label", "name": "quality", "author": "jo"})
    scene.commit()
    assert queue(scene)["left"] == len(ALL)


def test_a_kind_is_the_name_of_what_has_none(scene: Scene) -> None:
    judge(scene, "g0m0.0", rating=4, scale=5)
    for _ in range(2):
        assert queue(scene, name="rating")["left"] == len(ALL) - 1
        scene.commit()


def test_by_the_providers_id(scene: Scene) -> None:
    scene.put("/steps", {**step("chat.0", "chat", 0), "response_id": "chatcmpl-1"})
    scene.commit()
    assert queue(scene, trajectory_id="chat")["left"] == 1
    scene.put("/events", {"response_id": "chatcmpl-1", "type": "thumbs_up", "author": "jo"})
    for _ in range(2):
        assert queue(scene, name="thumbs", trajectory_id="chat")["left"] == 0
        scene.commit()


def test_judged_in_bulk(scene: Scene) -> None:
    body = {"feedback": {"label": "good", "name": "quality", "author": "jo"}, "filter": {"group_id": "g0"}}
    many = scene.http.post("/api/v1/feedback/bulk", json=body).json()["steps"]
    assert queue(scene)["left"] == len(ALL) - many
    scene.commit()
    assert queue(scene)["left"] == len(ALL) - many


def test_two_share_the_work(scene: Scene) -> None:
    """At the same time, each never gets what the other has or had; together they get everything."""
    seen: dict[str, list[str]] = {"jo": [], "al": []}

    def work(author: str) -> None:
        while (said := queue(scene, author=author, shared=True, limit=3))["items"]:
            seen[author] += given(said)
            judge(scene, *given(said), author=author)

    threads = [threading.Thread(target=work, args=(author,)) for author in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen["jo"] + seen["al"]) == sorted(ALL) and seen["jo"] and seen["al"]


def test_what_somebody_holds_is_kept_for_a_while() -> None:
    now = [0.0]
    held = Held(lambda: now[0])

    def page(besides: list[str]) -> dict[str, Any]:
        return {"items": [{"step_id": name} for name in ("a", "b", "c") if name not in besides][:2]}

    def get(author: str, name: str = "quality") -> list[str]:
        return given(held.handed_out(name, author, page))

    assert get("jo") == ["a", "b"] and get("al") == ["c"] and get("jo") == ["a", "b"]
    assert get("al", "another") == ["a", "b"]
    now[0] = HOLD + 1
    assert get("al") == ["a", "b"]
    assert set(held._until) == {"quality"}, "what nobody holds any more is not remembered, whoever asked for it"


def test_a_gateway_that_was_away_knows_what_waits(scene: Scene, tmp_path: Path) -> None:
    """Nothing of it is in memory: the spool has it, among much else."""
    judge(scene, "g0m0.0")
    scene.put("/steps", *(step(f"n{number}.0", "n", 0) for number in range(20)))
    judge(scene, "g0m1.0")
    scene.writer.submit(Entry("other", "other", b"{}", b"not of this world")).result()
    another = create_app(
        writer=scene.writer,
        spool_folder=scene.spool,
        token=TOKEN,
        warehouse=lambda: Warehouse.open(scene.root, create=False),
    )
    with TestClient(another, base_url="http://127.0.0.1:8787", headers={"authorization": f"Bearer {TOKEN}"}) as http:
        said = http.get("/api/v1/annotations/queue", params={"author": "jo", "name": "quality", "limit": 500}).json()
    assert set(given(said)) == ALL - {"g0m0.0", "g0m1.0"}


def pairs(scene: Scene, author: str = "jo", name: str = "preference", **more: Any) -> dict[str, Any]:
    answer = scene.get("/annotations/pairs", author=author, name=name, **more)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def named(said: dict[str, Any]) -> list[tuple[str, ...]]:
    return [tuple(sorted((item["a"]["step_id"], item["b"]["step_id"]))) for item in said["items"]]


def test_pairs_answer_one_prompt(scene: Scene) -> None:
    """First turns of a group do; later ones go on differently."""
    wanted = {
        pair for group in range(GROUPS) for pair in combinations([name_of(group, m, 0) for m in range(MEMBERS)], 2)
    }
    said = pairs(scene, limit=100)
    assert sorted(named(said)) == sorted(wanted) and said["next"] is None
    assert all(item["group_id"] == item["a"]["group_id"] == item["b"]["group_id"] for item in said["items"])
    one = pairs(scene, group_id="g2", limit=100)
    assert set(named(one)) == {pair for pair in wanted if pair[0].startswith("g2")}
    assert {item["prompt_id"] for item in one["items"]} == {"p2"}


def test_pairs_that_were_compared_do_not_come_again(scene: Scene) -> None:
    seen: list[tuple[str, ...]] = []
    while (said := pairs(scene, limit=2))["items"]:
        for item in said["items"]:
            better, worse = item["a"]["step_id"], item["b"]["step_id"]
            scene.put("/feedback", {"step_id": better, "rejected_id": worse, "author": "jo"})
        seen += named(said)
        if len(seen) == 4:
            scene.commit()
    assert len(seen) == len(set(seen)) == GROUPS * 3
    assert len(named(pairs(scene, author="al", limit=100))) == GROUPS * 3
    assert len(named(pairs(scene, name="style", limit=100))) == GROUPS * 3


def test_pages_of_pairs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = named(pairs(scene, limit=100))
    for groups in (1, 3, 20):
        monkeypatch.setattr("stepwell.gateway._annotate_pairs._GROUPS", groups)
        found: list[tuple[str, ...]] = []
        cursor: dict[str, str] = {}
        for _ in range(40):
            said = pairs(scene, limit=5, **cursor)
            found += named(said)
            if said["next"] is None:
                break
            cursor = {"cursor": said["next"]}
        assert found == whole


def test_equal_answers_and_failed_calls_are_no_pairs(scene: Scene) -> None:
    more = {"group_id": "x", "trajectory_id": "x"}
    scene.put("/steps", *({**step(f"x{number}", "x", 0), **more} for number in range(2)))
    scene.put("/steps", {**step("x2", "x", 0), "response_ids": [99], "logprobs": [-1.0], **more})
    scene.put("/steps", {**step("x3", "x", 0), "response_ids": [98], "logprobs": [-1.0], "status": "error", **more})
    texts = {"messages": [{"role": "user", "content": "Hi"}], "group_id": "y", "trajectory_id": "y"}
    scene.put("/steps", *({"step_id": f"y{number}", "response": text, **texts} for number, text in enumerate("aab")))
    scene.put("/steps", {"step_id": "y3", "response": "c", **texts, "messages": [{"role": "user", "content": "Ho"}]})
    scene.commit()
    assert sorted(named(pairs(scene, group_id="x"))) == [("x0", "x2"), ("x1", "x2")]
    assert sorted(named(pairs(scene, group_id="y"))) == [("y0", "y2"), ("y1", "y2")]


@pytest.mark.parametrize("path", ["/annotations/queue", "/annotations/pairs"])
@pytest.mark.parametrize(
    ("asked", "field"),
    [({"name": "n"}, "author"), ({"author": "a"}, "name"), ({"author": "a", "name": "n", "where": "x ="}, "where"),
     ({"author": "a", "name": "n", "cursor": "x"}, "cursor"), ({"author": "a", "name": "n", "limit": 0}, "limit"),
     ({"author": "a\x00", "name": "n"}, None)],
)  # fmt: skip
def test_what_is_refused(told: Scene, path: str, asked: dict[str, Any], field: str | None) -> None:
    answer = told.get(path, **asked)
    assert answer.status_code == 422, answer.text
    assert field is None or answer.json()["field"] == field


@pytest.fixture(scope="module", name="told")
def _told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("told"))
    roll_out(scene)
    yield scene
    scene.close()
