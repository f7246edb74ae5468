"""The prefix tree of steps that the test made: who shares what, zoomed into and cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.gateway.rollouts import GROUPS, MEMBERS, OPENING, every, name_of, roll_out, tokens_of, turns_of
from tests.gateway.scene import Scene, step

from stepwell.gateway import _work_tree


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("tree"))
    roll_out(scene)
    scene.warehouse.datasets.create("math", "split = 'train' AND prompt_length IS NOT NULL")
    yield scene
    scene.close()


def tree(scene: Scene, **asked: Any) -> dict[str, Any]:
    answer = scene.get("/prefix-tree", **asked)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def sequences(some: list[tuple[int, int, int]]) -> list[tuple[int, ...]]:
    return [tuple(prompt + response) for prompt, response in (tokens_of(*one) for one in some)]


def merged(some: list[tuple[int, int, int]]) -> int:
    return len({whole[:size] for whole in sequences(some) for size in range(1, len(whole) + 1)})


def test_a_dataset_adds_up(scene: Scene) -> None:
    said, some = tree(scene, dataset="math"), every()
    naive = sum(map(len, sequences(some)))
    assert said["selection"] == "dataset math@1" and said["steps"] == len(some)
    assert said["tokens"] == {"naive": naive, "merged": merged(some), "sampled": 2 * len(some)}
    assert said["saved"] == naive - merged(some) and said["width"] == merged(some)
    root, *rest = said["rows"]
    assert (root["tokens"], root["steps"], root["x0"], root["x1"]) == (len(OPENING), len(some), 0, merged(some))
    assert sum(row["tokens"] for row in said["rows"]) == merged(some) and len(said["rows"]) == said["nodes"]
    assert sum(row["saved"] for row in said["rows"]) == said["saved"] == root["subtree_saved"]
    assert sum(row["ended"] for row in said["rows"]) == len(some)
    assert said["cut"] == {"width": 0, "nodes": 0, "tokens": 0, "saved": 0, "steps": 0}
    groups = [row for row in rest if row["depth"] == 1]
    assert [row["parent"] for row in groups] == [0] * GROUPS and [row["tokens"] for row in groups] == [1] * GROUPS
    by_group = [[one for one in some if one[0] == group] for group in range(GROUPS)]
    assert [row["steps"] for row in groups] == [len(mine) for mine in by_group]
    assert [row["subtree_tokens"] for row in groups] == [merged(mine) - len(OPENING) for mine in by_group]


def test_one_group_and_one_trajectory(scene: Scene) -> None:
    mine = [(1, member, turn) for member in range(MEMBERS) for turn in range(turns_of(1, member))]
    said = tree(scene, group_id="g1")
    assert (said["steps"], said["without_ids"], said["tokens"]["merged"]) == (len(mine), 0, merged(mine))
    longest = max(range(MEMBERS), key=lambda member: turns_of(1, member))
    line = tree(scene, trajectory_id=name_of(1, longest), by="steps")
    assert [row["steps"] for row in line["rows"]] == [3, 2, 1] and line["width"] == 3
    assert [row["step_id"] for row in line["rows"]] == [name_of(1, longest, turn) for turn in range(3)]
    assert [(row["x0"], row["x1"], row["depth"], row["ended"]) for row in line["rows"]] == [
        (0, 3, 0, 1), (1, 3, 1, 1), (2, 3, 2, 1)]  # fmt: skip
    assert [row["sampled"] for row in line["rows"]] == [2, 2, 2]
    assert [row["position"] for row in line["rows"]] == [0, 6, 9]


def test_a_node_is_looked_into(scene: Scene) -> None:
    whole = tree(scene, dataset="math")
    node = next(row for row in whole["rows"] if row["depth"] == 1 and row["steps"] > 3)
    inner = tree(scene, dataset="math", node=node["node"])
    assert inner["node"] == node["node"] and [above["node"] for above in inner["path"]] == [0, node["node"]]
    assert inner["path"][1]["subtree_saved"] == node["subtree_saved"] and inner["width"] == node["x1"] - node["x0"]
    same = [row for row in whole["rows"] if node["x0"] <= row["x0"] and row["x1"] <= node["x1"]]
    moved = [
        {**row, "x0": row["x0"] - node["x0"], "x1": row["x1"] - node["x0"], "depth": row["depth"] - 1} for row in same
    ]
    assert inner["rows"] == moved


@pytest.mark.parametrize("by", ["tokens", "steps"])
@pytest.mark.parametrize("limit", [1, 3, 8])
def test_what_is_cut_is_summed_up(scene: Scene, by: str, limit: int) -> None:
    whole, said = tree(scene, dataset="math", by=by), tree(scene, dataset="math", by=by, limit=limit)
    assert len(said["rows"]) == limit
    for name, own in (("tokens", "tokens"), ("saved", "saved")):
        assert sum(row[own] for row in said["rows"]) + said["cut"][name] == sum(row[own] for row in whole["rows"])
    assert len(said["rows"]) + said["cut"]["nodes"] == said["nodes"]
    below = [row["cut"] for row in said["rows"] if row["cut"]]
    assert {name: sum(cut[name] for cut in below) for name in said["cut"]} == said["cut"]


def test_a_condition_at_a_version(scene: Scene) -> None:
    before = tree(scene, where="trajectory_id = 'late' OR trajectory_id = 'g0m0'")
    scene.put("/steps", step("late.0", "late", 0))
    scene.commit()
    after = tree(scene, where="trajectory_id = 'late' OR trajectory_id = 'g0m0'")
    assert after["steps"] == before["steps"] + 1 and after["at"] > before["at"]
    assert tree(scene, where="trajectory_id = 'late' OR trajectory_id = 'g0m0'", at=before["at"]) == before


def test_tokenizers_share_nothing(scene: Scene) -> None:
    for name in ("a", "b"):
        scene.put("/steps", {**step(f"{name}.0", name, 0), "fingerprint": name})
    scene.commit()
    said = tree(scene, where="trajectory_id IN ('a', 'b')")
    assert said["tokens"]["naive"] == said["tokens"]["merged"] == 6 and said["saved"] == 0
    assert [row["steps"] for row in said["rows"]] == [1, 1]


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [({}, 422, "dataset"), ({"dataset": "math", "group_id": "g0"}, 422, "group_id"), ({"dataset": "no"}, 404, None),
     ({"dataset": "math", "node": 10_000}, 422, "node"), ({"where": "x ="}, 422, "where"), ({"group_id": "none"}, 422, "prompt_ids"),
     ({"trajectory_id": "text"}, 422, "prompt_ids"), ({"where": "true", "at": 10_000}, 422, "at"),
     ({"where": "true", "by": "height"}, 422, "by"), ({"group_id": "a\x00b"}, 422, None)],
)  # fmt: skip
def test_what_is_refused(scene: Scene, asked: dict[str, Any], status: int, field: str | None) -> None:
    answer = scene.get("/prefix-tree", **asked)
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"] and (field is None or answer.json()["field"] == field)


def test_text_is_counted_and_too_much_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"where": "trajectory_id IN ('text', 'g0m0')", "by": "tokens", "budget_px": 100, "limit": 10}
    trees = _work_tree.Trees()
    said = trees.selected(scene.warehouse, asked)
    assert (said["steps"], said["without_ids"]) == (turns_of(0, 0), 1)
    monkeypatch.setattr(_work_tree, "MOST_TOKENS", 5)
    assert trees.selected(scene.warehouse, asked) == said  # it is remembered
    with pytest.raises(Exception, match="at most 5 are put into a tree"):
        _work_tree.Trees().selected(scene.warehouse, asked)
    monkeypatch.setattr(_work_tree, "MOST_STEPS", 1)
    with pytest.raises(Exception, match="at most 1 are looked at"):
        _work_tree.Trees().selected(scene.warehouse, asked)
