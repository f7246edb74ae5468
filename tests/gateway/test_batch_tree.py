"""The prefix trees of an optimizer step: what is drawn is what its packs hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.gateway.rollouts import roll_out
from tests.gateway.scene import Scene

from stepwell.gateway import _work_reader
from stepwell.gateway._preview import BatchTree
from stepwell.gateway._work_tree import Trees
from stepwell.reader import BatchReader, TreeBatches


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("batch-tree"))
    roll_out(scene)
    scene.warehouse.datasets.create("math", "split = 'train' AND prompt_length IS NOT NULL")
    yield scene
    scene.close()


SETTINGS: list[dict[str, Any]] = [
    {"where": "true"},
    {"where": "true", "merge": "none"},
    {"where": "true", "merge": "trajectory", "advantage": "none"},
    {"dataset": "math", "max_tokens": 25, "ranks": 3, "groups_per_step": 2},
    {"dataset": "math@1", "max_tokens": 12, "on_error": "skip"},
]


def first(scene: Scene, asked: dict[str, Any]) -> TreeBatches:
    return next(iter(BatchReader(scene.warehouse, **{"on_error": "skip", **asked, **_named(asked)})))


def _named(asked: dict[str, Any]) -> dict[str, Any]:
    return {"dataset": "math", "version": 1} if "dataset" in asked else {}


def drawn(scene: Scene, trees: Trees | None = None, **asked: Any) -> dict[str, Any]:
    said = BatchTree.model_validate(asked).model_dump(exclude={"filter", "adapter"})
    return (trees or Trees()).batch(scene.warehouse, said)


@pytest.mark.parametrize("asked", SETTINGS)
def test_it_is_what_the_packs_hold(scene: Scene, asked: dict[str, Any]) -> None:
    said, batches = drawn(scene, **asked), first(scene, asked)
    packs = list(batches)
    steps = sum(len(pack.step_index) for pack in packs)
    assert said["steps"] == steps == batches.steps.num_rows
    assert said["tokens"]["merged"] == sum(pack.tokens_merged for pack in packs) == said["width"]
    assert said["tokens"]["naive"] == sum(pack.tokens_unmerged for pack in packs)
    assert said["tokens"]["sampled"] == sum(len(np.unique(pack.occurrence_target)) for pack in packs)
    roots = [row for row in said["rows"] if row["depth"] == 0]
    assert len(roots) == sum(len(pack.tree_cu_seqlens) - 1 for pack in packs)
    ends = {row["step_id"] for row in said["rows"] if row["ended"]}
    assert ends <= set(batches.steps["step_id"].to_pylist()) and sum(row["ended"] for row in said["rows"]) == steps
    assert said["selection"].startswith("the first optimizer step of ")


def test_merging_nothing_saves_nothing(scene: Scene) -> None:
    said = drawn(scene, where="true", merge="none")
    assert said["saved"] == 0 and {row["steps"] for row in said["rows"]} == {1}


def test_looking_into_it_reads_nothing_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    trees, asked = Trees(), {"where": "split = 'train'", "groups_per_step": 2}
    whole = drawn(scene, trees, **asked)
    node = next(row for row in whole["rows"] if row["depth"] == 1 and row["steps"] > 1)
    monkeypatch.setattr(_work_reader, "MOST_STEPS", 0)  # whoever reads is refused
    inner = drawn(scene, trees, **asked, node=node["node"], by="steps", at=whole["at"])
    assert inner["path"][-1]["subtree_saved"] == node["subtree_saved"] and inner["width"] == node["steps"]
    with pytest.raises(Exception, match="at most 0 are looked at"):
        drawn(scene, trees, **asked, max_tokens=24)


def test_over_http(scene: Scene) -> None:
    for asked in SETTINGS[2:4]:
        answer = scene.http.post("/api/v1/batches/prefix-tree", json=asked | {"adapter": "verl"})
        assert answer.status_code == 200 and answer.json() == drawn(scene, **asked)
    by_filter = scene.http.post("/api/v1/batches/prefix-tree", json={"filter": {"group_id": "g1"}}).json()
    wanted = drawn(scene, where="group_id = 'g1'")
    assert by_filter["rows"] == wanted["rows"] and by_filter["tokens"] == wanted["tokens"]


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [({}, 422, "dataset"), ({"where": "false"}, 422, "where"), ({"dataset": "none"}, 404, None),
     ({"where": "true", "by": "x"}, 422, "by"), ({"where": "true", "limit": 0}, 422, "limit"),
     ({"where": "true", "node": 10**9}, 422, "node"), ({"where": "true", "on_error": "raise", "max_length": 3}, 422, "max_tokens")],
)  # fmt: skip
def test_what_is_refused(scene: Scene, asked: Any, status: int, field: str | None) -> None:
    answer = scene.http.post("/api/v1/batches/prefix-tree", json=asked)
    said = answer.json()
    assert answer.status_code == status and (field is None or said["field"] == field), said


def test_what_is_too_much_is_not_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_work_reader, "MOST_TOKENS", 100)
    with pytest.raises(Exception, match="set groups_per_step"):
        drawn(scene, where="true")
