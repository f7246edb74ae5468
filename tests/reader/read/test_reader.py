"""Optimizer steps out of a warehouse: what is in them, in which order, and what is told about the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord, StoreError
from stepwell.reader import Advantage, BatchReader, LossWeights, TreeBatches
from stepwell.warehouse import Warehouse

EVERYTHING = "true"


def terms(batch: TreeBatches) -> Counter[tuple[Any, ...]]:
    """Every loss term: whose it is, at which position, which id, and what is due to it."""
    found: Counter[tuple[Any, ...]] = Counter()
    for pack in batch:
        at = pack.occurrence_target
        advantage = np.zeros(len(at)) if pack.advantage is None else pack.advantage
        old = np.zeros(len(at)) if pack.old_logprob is None else pack.old_logprob
        columns = (
            pack.step_index[pack.occurrence_step],
            pack.position_ids[pack.target_position][at],
            pack.target_id[at],
            advantage,
            pack.weight,
            old,
        )
        found.update(zip(*(column.tolist() for column in columns), strict=True))
    return found


def advantages(batch: TreeBatches) -> dict[str, float]:
    """By step."""
    names = dict(zip(batch.steps["step_index"].to_pylist(), batch.steps["step_id"].to_pylist(), strict=True))
    found = {}
    for pack in batch:
        assert pack.advantage is not None
        for row, index in enumerate(pack.step_index.tolist()):
            values = pack.advantage[pack.occurrence_offsets[row] : pack.occurrence_offsets[row + 1]]
            assert len(set(values.tolist())) == 1
            found[names[index]] = float(values[0])
    return found


def sequences(batch: TreeBatches) -> dict[str, list[int]]:
    names = dict(zip(batch.steps["step_index"].to_pylist(), batch.steps["step_id"].to_pylist(), strict=True))
    return {
        names[index]: pack.sequence(row).tolist()
        for pack in batch
        for row, index in enumerate(pack.step_index.tolist())
    }


def test_an_epoch_is_every_group_once(plain: Warehouse, names_of: Callable[..., list[str]]) -> None:
    reader = BatchReader(plain, where=EVERYTHING, groups_per_step=2)
    batches = list(reader)
    assert len(reader) == len(batches) == 3
    assert [len(set(batch.steps["group_id"].to_pylist())) for batch in batches] == [2, 2, 2]
    assert names_of(*batches) == sorted(plain.query("SELECT step_id FROM steps")["step_id"].to_pylist())
    assert [batch.number for batch in batches] == [0, 1, 2]


def test_tokens_logprobs_and_terms_are_those_that_were_stored(plain: Warehouse) -> None:
    (batch,) = BatchReader(plain, where=EVERYTHING, advantage=None, old_logprobs=True)
    stored = plain.steps(columns=["step_id", "prompt_ids", "response_ids", "logprobs"]).read_all().to_pylist()
    assert sequences(batch) == {row["step_id"]: row["prompt_ids"] + row["response_ids"] for row in stored}
    old = Counter(old for *_, old in terms(batch).elements())
    assert old == Counter(value for row in stored for value in row["logprobs"])
    assert batch.occurrences == batch.report.terms == sum(len(row["response_ids"]) for row in stored)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("merge", ["tree", "trajectory", "none"])
def test_every_way_to_merge_and_pack_has_the_same_terms(plain: Warehouse, merge: Any, ranks: int) -> None:
    (reference,) = BatchReader(plain, where=EVERYTHING, merge="none")
    (batch,) = BatchReader(plain, where=EVERYTHING, merge=merge, ranks=ranks, max_tokens=24)
    assert terms(batch) == terms(reference)
    assert len({len(packs) for packs in batch.packs}) == 1 and len(batch.packs) == ranks
    assert max(pack.tokens_merged for pack in batch) <= 24
    assert sum(pack.tokens_merged for pack in batch) == batch.report.tokens
    assert sum(float(pack.weight.sum()) for pack in batch) == pytest.approx(1.0)


def test_a_trajectory_is_one_line_and_a_group_one_tree(plain: Warehouse) -> None:
    (tree,) = BatchReader(plain, where="group_id = 'g3'")
    (lines,) = BatchReader(plain, where="group_id = 'g3'", merge="trajectory")
    (steps,) = BatchReader(plain, where="group_id = 'g3'", merge="none")
    trees = [sum(len(pack.tree_cu_seqlens) - 1 for pack in batch) for batch in (tree, lines, steps)]
    assert trees == [1, 3, len(steps.steps)]
    for pack in lines:
        ends = np.repeat(pack.tree_cu_seqlens[1:], np.diff(pack.tree_cu_seqlens))
        np.testing.assert_array_equal(pack.subtree_end, ends)
    assert tree.report.tokens < lines.report.tokens < steps.report.tokens == steps.report.tokens_naive


def test_a_baseline_sees_the_whole_group_whatever_is_selected(plain: Warehouse) -> None:
    """Rewards of a group are 0, 1, 0. The one that is selected is still compared with all three."""
    (whole,) = BatchReader(plain, where="group_id = 'g0'")
    (part,) = BatchReader(plain, where="trajectory_id = 'a1'")
    assert set(advantages(part)) == {"a1.0", "a1.1"}
    assert (
        advantages(part)["a1.0"] == advantages(whole)["a1.0"] == pytest.approx(2 / 3 / np.std([0, 1, 0], ddof=1), 1e-4)
    )
    (alone,) = BatchReader(plain, where="trajectory_id = 'a1'", advantage=Advantage("grpo", baseline="selected"))
    assert set(advantages(alone).values()) == {0.0}
    assert alone.level_groups == 1


def test_a_dataset_is_read_as_it_was_frozen(told: Any, names_of: Callable[..., list[str]]) -> None:
    told.rollout("t1", "g", 2, 1.0)
    told.rollout("t2", "g", 1, 0.0)
    warehouse = told.commit()
    warehouse.datasets.create("d", "trajectory_reward > 0")
    told.rollout("t3", "g", 1, 5.0)
    told.reward("t1", -3.0)
    told.commit()
    (batch,) = BatchReader(warehouse, dataset="d")
    assert names_of(batch) == ["t1.0", "t1.1"]
    assert advantages(batch)["t1.0"] == pytest.approx(0.7071, 1e-3)
    (now,) = BatchReader(warehouse, where="trajectory_id = 't1'")
    assert advantages(now)["t1.0"] < 0
    (then,) = BatchReader(warehouse, where="trajectory_id = 't1'", at="d@1")
    assert advantages(then) == advantages(batch)


def test_rewards_by_name_have_weights(told: Any) -> None:
    for name, correct, style in (("t1", 1.0, 0.0), ("t2", 0.0, 1.0)):
        told.trajectory(name, "g")
        told.step(name, 0, [1, 2], [3])
        told.reward(name, correct, name="correct")
        told.reward(name, style, name="style")
        told.trajectory(name, "g", state="completed")
    warehouse = told.commit()
    (level,) = BatchReader(warehouse, where=EVERYTHING)
    assert set(advantages(level).values()) == {0.0}
    (batch,) = BatchReader(warehouse, where=EVERYTHING, rewards={"correct": 1.0, "style": 0.1})
    assert advantages(batch)["t1.0"] > 0 > advantages(batch)["t2.0"]
    with pytest.raises(InvalidRecord, match="twice"):
        BatchReader(warehouse, where=EVERYTHING, advantage=Advantage(rewards={"style": 1.0}), rewards={"style": 1.0})


def test_loss_weights_are_of_the_optimizer_step(plain: Warehouse) -> None:
    for batch in BatchReader(plain, where=EVERYTHING, groups_per_step=2, ranks=2, loss=LossWeights("trajectory-mean")):
        assert sum(float(pack.weight.sum()) for pack in batch) == pytest.approx(1.0)
        assert len(set(batch.steps["trajectory_id"].to_pylist())) == 6


def test_the_seed_decides_the_order_and_each_epoch_has_its_own(plain: Warehouse) -> None:
    def order(seed: int | None, epochs: int = 1) -> list[list[str]]:
        reader = BatchReader(plain, where=EVERYTHING, groups_per_step=1, seed=seed)
        return [[batch.steps["group_id"][0].as_py() for batch in reader] for _ in range(epochs)]

    first, second = order(7, 2)
    assert order(7, 2) == [first, second]
    assert sorted(first) == sorted(second) == [f"g{n}" for n in range(6)]
    assert first != second and order(8) != [first]
    assert order(None, 2) == [[f"g{n}" for n in range(6)]] * 2


def test_a_reader_goes_on_where_another_was(plain: Warehouse) -> None:
    def reader(**more: Any) -> BatchReader:
        return BatchReader(plain, where=EVERYTHING, **{"groups_per_step": 2, "seed": 3, **more})

    whole = reader()
    expected = [terms(batch) for _ in range(2) for batch in whole]
    begun = reader()
    seen = [terms(batch) for batch in begun]
    following = iter(begun)
    seen.append(terms(next(following)))
    resumed = reader()
    resumed.load_state_dict(begun.state_dict())
    assert seen + [terms(batch) for batch in resumed] == expected
    with pytest.raises(InvalidRecord, match="another selection"):
        reader(seed=4).load_state_dict(begun.state_dict())


def test_only_the_steps_of_one_optimizer_step_are_read(plain: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    restored = plain.restored

    def counted(rows: pa.Table, columns: Any) -> pa.RecordBatchReader:
        asked.append(rows.num_rows)
        return restored(rows, columns)

    monkeypatch.setattr(plain, "restored", counted)
    reader = BatchReader(plain, where=EVERYTHING, groups_per_step=1)
    reader.plan()
    assert asked == [], "a plan reads no tokens"
    for number, batch in enumerate(reader, 1):
        assert len(asked) == number and asked[-1] == len(batch.steps)


def test_the_plan_tells_what_comes_out(plain: Warehouse) -> None:
    reader = BatchReader(plain, where=EVERYTHING, groups_per_step=2, max_tokens=32, ranks=2)
    plan, batches = reader.plan(), list(reader)
    for planned, batch in zip(plan.optimizer_steps, batches, strict=True):
        found = batch.report
        assert (planned.steps, planned.terms, planned.tokens_naive) == (found.steps, found.terms, found.tokens_naive)
        assert planned.tokens_merged >= found.tokens_merged, "sharing that lineage does not tell is found in the tokens"
    assert plan.total("terms") == sum(batch.occurrences for batch in batches)
    assert plan.policies == ("pi",) and plan.fingerprints == ("m",)
    assert "3 optimizer steps of 6 groups" in str(plan)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"dataset": "d", "where": "true"}, "dataset"),
        ({}, "dataset"),
        ({"where": "true", "version": 1}, "version"),
        ({"dataset": "d", "at": 1}, "at"),
        ({"where": "true", "merge": "graph"}, "merge"),
        ({"where": "true", "max_tokens": 0}, "max_tokens"),
        ({"where": "true", "groups_per_step": 0}, "groups_per_step"),
        ({"where": "true", "ranks": 0}, "ranks"),
        ({"where": "true", "on_drift": "hope"}, "on_drift"),
        ({"where": "true", "on_error": "ignore"}, "on_error"),
        ({"where": "false"}, "where"),
        ({"where": "true", "advantage": "luck"}, "advantage"),
    ],
)
def test_settings_that_make_no_sense_are_refused(plain: Warehouse, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        BatchReader(plain, **options)
    assert refused.value.field == field


def test_a_dataset_that_is_not_there(plain: Warehouse) -> None:
    with pytest.raises(StoreError, match="nothing"):
        BatchReader(plain, dataset="nothing")
