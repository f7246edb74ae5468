"""The preview of a batch: every figure is the one of a reader with the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from tests.gateway.rollouts import GROUPS, every, roll_out
from tests.gateway.scene import Scene

from stepwell.gateway import _work_batch, _work_preview, _work_reader
from stepwell.gateway._preview import Preview
from stepwell.reader import BatchReader, dense_mask
from stepwell.reader.adapters import rows_of, to_verl
from stepwell.warehouse import BadQuery

TRAINED = len(every())


@pytest.fixture(scope="module", name="scene")
def _scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    scene = Scene(tmp_path_factory.mktemp("preview"))
    roll_out(scene)
    scene.warehouse.datasets.create("math", "split = 'train' AND prompt_length IS NOT NULL")
    yield scene
    scene.close()


def previewed(scene: Scene, **asked: Any) -> dict[str, Any]:
    answer: dict[str, Any] = _work_preview.preview(
        scene.warehouse, Preview.model_validate(asked).model_dump(exclude={"filter"})
    )
    return answer


SETTINGS: list[dict[str, Any]] = [
    {"where": "true"},
    {"where": "true", "merge": "none", "max_tokens": 30, "ranks": 2},
    {"where": "split = 'train'", "merge": "trajectory", "groups_per_step": 1, "advantage": "rloo", "seed": 3},
    {"dataset": "math", "max_tokens": 25, "ranks": 3, "groups_per_step": 2, "loss": "trajectory-mean"},
    {"dataset": "math@1", "advantage": "none", "max_length": 9, "on_error": "skip", "old_logprobs": True},
]


@pytest.mark.parametrize("asked", SETTINGS)
def test_the_figures_are_those_of_a_reader(scene: Scene, asked: dict[str, Any]) -> None:
    said = previewed(scene, **asked)
    settings = {"on_error": "skip", **asked}
    if "dataset" in settings:
        settings["dataset"] = "math"
    reader = BatchReader(scene.warehouse, **settings)
    plan, batches = reader.plan(), next(iter(reader))
    for report, planned in zip(said["reports"], plan.optimizer_steps, strict=True):
        assert report == {**asdict(planned), "inflation": planned.inflation, "padding": planned.padding}
    for name in ("groups", "steps", "terms", "tokens_naive", "tokens_merged", "tokens", "packs", "empty", "padding"):
        assert said["totals"][name] == plan.total(name)
    assert said["trained"] == plan.total("steps") > 0 and said["optimizer_steps"] == len(reader)
    assert (said["left_out"], said["skipped"], said["drift"]) == (plan.left_out, plan.skipped, plan.drift)
    assert (said["selected"], said["at"], said["policies"]) == (plan.selected, plan.at, ["pi"])
    first = said["first"]
    packs = [(rank, number, pack) for rank, some in enumerate(batches.packs) for number, pack in enumerate(some)]
    assert [(one["rank"], one["number"]) for one in first["packs"]] == [(rank, number) for rank, number, _ in packs]
    for one, (_, _, pack) in zip(first["packs"], packs, strict=True):
        assert (one["tokens"], one["terms"], one["steps"]) == (
            pack.tokens_merged,
            pack.occurrences,
            len(pack.step_index),
        )
        assert [step["step_id"] for step in one["named"]] == [
            batches.steps["step_id"].to_pylist()[place]
            for place in np.searchsorted(batches.steps["step_index"].to_numpy(), pack.step_index).tolist()
        ]
        terms = [step["terms"] for step in one["named"]]
        assert np.repeat([step["weight"] for step in one["named"]], terms).astype(np.float32).tolist() == (
            pack.weight.tolist()
        )
        if pack.advantage is not None:
            due = np.repeat([step["advantage"] for step in one["named"]], terms).astype(np.float32)
            assert due.tolist() == pack.advantage.tolist()
    assert first["tokens_by_rank"] == [sum(pack.tokens_merged for pack in some) for some in batches.packs]
    assert first["report"] == {**asdict(batches.report), "inflation": batches.report.inflation,
                               "padding": batches.report.padding}  # fmt: skip


def test_what_is_left_out_and_why(scene: Scene) -> None:
    said = previewed(scene, where="true")
    assert said["selected"] == TRAINED + 2 and said["trained"] == TRAINED
    assert sum(said["left_out"].values()) + sum(said["skipped"].values()) == 2
    assert any("eval" in reason for reason in said["left_out"])
    assert said["totals"]["groups"] == GROUPS and said["totals"]["terms"] == 2 * TRAINED


def test_the_mask_and_the_operations_are_those_of_the_packs(scene: Scene) -> None:
    said = previewed(scene, where="true", max_tokens=40, ranks=2)
    packs = [pack for some in next(iter(BatchReader(scene.warehouse, where="true", max_tokens=40, ranks=2,
                                                    on_error="skip"))).packs for pack in some]  # fmt: skip
    mask, operations = said["first"]["mask"], said["first"]["operations"]
    pack = packs[mask["rank"] * len(packs) // 2 + mask["number"]]
    assert mask["tokens"] == pack.tokens_merged == min(one.tokens_merged for one in packs if one.tokens_merged)
    dense = dense_mask(pack)
    size, block = len(dense), mask["block"]
    for row, (partial, full) in enumerate(zip(mask["partial"], mask["full"], strict=True)):
        queries = slice(row * block, (row + 1) * block)
        seen = [column for column in range(-(-size // block))
                if dense[queries, column * block : (column + 1) * block].any()]  # fmt: skip
        assert sorted(partial + full) == seen
        assert all(dense[queries, column * block : (column + 1) * block].all() for column in full)
    assert operations["pairs"]["computed"] == sum(int(dense_mask(one).sum()) for one in packs)
    lengths = np.concatenate([one.tree.lengths for one in packs])
    assert operations["pairs"]["naive"] == int((lengths * (lengths + 1) // 2).sum())
    assert operations["tokens"] == {"naive": int(lengths.sum()), "computed": sum(one.tokens_merged for one in packs)}
    assert operations["ratio"] == pytest.approx(lengths.sum() / sum(one.tokens_merged for one in packs), rel=1e-3)


def test_a_mask_of_more_tokens_than_blocks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_work_batch, "_BLOCKS", 7)
    mask = previewed(scene, where="true")["first"]["mask"]
    assert mask["block"] == -(-mask["tokens"] // 7) > 1 and len(mask["partial"]) <= 7


@pytest.mark.parametrize("trainer", Preview.model_json_schema()["properties"]["adapter"]["anyOf"][0]["enum"])
def test_every_adapter_shows_its_fields(scene: Scene, trainer: str) -> None:
    loss = "token-mean"
    said = previewed(scene, where="true", merge="none", groups_per_step=2, adapter=trainer, loss=loss)["adapter"]
    batches = next(iter(BatchReader(scene.warehouse, where="true", merge="none", groups_per_step=2, on_error="skip")))
    rows = rows_of(batches)
    assert said["rows"] == len(rows) and said["left_out"] is None
    if trainer == "verl":
        tensors = to_verl(rows, pad=0).tensors
        assert {name: tuple(one["shape"]) for name, one in said["fields"]["tensors"].items()} == {
            name: values.shape for name, values in tensors.items()
        }
    elif trainer not in ("skyrl", "trl-grpo"):
        assert said["fields"]["items"] == len(rows) and said["fields"]["each"]


def test_the_code_makes_the_reader(scene: Scene) -> None:
    said = previewed(scene, dataset="math", ranks=2, groups_per_step=2, seed=None)
    names: dict[str, Any] = {}
    exec(said["code"], names)
    assert (
        names["reader"].plan()
        == BatchReader(
            scene.warehouse, dataset="math", version=1, ranks=2, groups_per_step=2, seed=None, on_error="skip"
        ).plan()
    )
    assert "merge" not in said["code"] and "version=1" in said["code"]


def test_what_is_too_much_is_not_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_work_reader, "MOST_TOKENS", 100)
    said = previewed(scene, where="true", adapter="verl", merge="none")
    assert said["first"] is said["adapter"] is None and "set groups_per_step" in said["first_left_out"]
    assert said["totals"]["tokens_naive"] > 100
    monkeypatch.setattr(_work_batch, "_CELLS", 10)
    monkeypatch.setattr(_work_reader, "MOST_TOKENS", 1000)
    said = previewed(scene, where="true", adapter="verl", merge="none")
    assert said["adapter"]["fields"] is None and "too many" in said["adapter"]["left_out"] and said["first"]
    monkeypatch.setattr(_work_reader, "MOST_STEPS", 10)
    with pytest.raises(Exception, match="at most 10 are looked at"):
        previewed(scene, where="true")


def test_over_http(scene: Scene) -> None:
    """Through a process of its own, with the same answer."""
    answer = scene.http.post("/api/v1/batches/preview", json=SETTINGS[1])
    assert answer.status_code == 200 and answer.json() == previewed(scene, **SETTINGS[1])


@pytest.mark.parametrize(
    ("filters", "where"),
    [({"group_id": "g1"}, "group_id = 'g1'"), ({"reward_min": 0.5, "ready": True}, "trajectory_reward >= 0.5")],
)
def test_the_steps_of_a_lists_filters(scene: Scene, filters: dict[str, Any], where: str) -> None:
    answer = scene.http.post("/api/v1/batches/preview", json={"filter": filters, "max_tokens": 40})
    assert answer.status_code == 200, answer.text
    said, wanted = answer.json(), previewed(scene, where=where, max_tokens=40)
    assert said.keys() == wanted.keys() and said["trained"] > 0
    own = {"selection", "code"}
    assert {k: v for k, v in said.items() if k not in own} == {k: v for k, v in wanted.items() if k not in own}


@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [({}, 422, "dataset"), ({"where": "true", "dataset": "math"}, 422, "where"), ({"where": "nonsense = 1"}, 422, "where"),
     ({"where": "step_id IN (SELECT step_id FROM steps)"}, 422, "where"), ({"where": "true) OR (true"}, 422, "where"),
     ({"where": "true THEN true END) OR (CASE WHEN true"}, 422, "where"), ({"where": "true; SELECT 1"}, 422, "where"),
     ({"where": "false"}, 422, "where"), ({"filter": {"x": 1}}, 422, "filter.x"), ({"filter": {}, "where": "true"}, 422, "filter"),
     ({"filter": {"where": "x ="}}, 422, "where"), ({"where": "true", "at": 999}, 422, "at"), ({"dataset": "math", "at": 1}, 422, "at"),
     ({"dataset": "none"}, 404, None), ({"dataset": "math@7"}, 404, None), ({"where": "true", "merge": "x"}, 422, "merge"),
     ({"where": "true", "max_tokens": 0}, 422, "max_tokens"), ({"where": "true", "speed": 1}, 422, "speed"),
     ({"where": "true", "adapter": "verl"}, 422, "merge"), ({"where": "true", "on_error": "raise", "max_length": 3}, 422, "max_tokens"),
     ([], 422, "")],
)  # fmt: skip
def test_what_is_refused(scene: Scene, asked: Any, status: int, field: str | None) -> None:
    answer = scene.http.post("/api/v1/batches/preview", json=asked)
    said = answer.json()
    assert answer.status_code == status and answer.headers["content-type"] == "application/problem+json"
    assert said["detail"] and (field is None or said["field"] == field), said


def test_weights_are_numbers(scene: Scene) -> None:
    answer = scene.http.post("/api/v1/batches/preview", content=b'{"where": "true", "rewards": {"a": NaN}}')
    assert (answer.status_code, answer.json()["field"]) == (422, "rewards.a")


def test_as_many_ids_as_lists_take(scene: Scene) -> None:
    ids = [f"{'x' * 250}{number}" for number in range(500)]
    answer = scene.http.post("/api/v1/batches/preview", json={"filter": {"ids": ids}})
    assert answer.status_code == 422 and "field" in answer.json()  # none of them is there


def test_a_condition_is_not_more_than_that(scene: Scene) -> None:
    with pytest.raises(BadQuery):
        previewed(scene, where="true ORDER BY step_id")
