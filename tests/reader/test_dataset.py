"""A dataset's rows as merged batches, group by group."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import GroupBatch, read_groups
from stepwell.warehouse import Warehouse


class _Datasets:
    def __init__(self, steps: pa.Table, peers: pa.Table) -> None:
        self._steps = steps
        self._peers = peers

    def read(self, _name: str, _version: int | None, *, verify: bool, allow_incomplete: bool) -> pa.Table:
        assert verify
        assert not allow_incomplete
        return self._steps

    def peers(self, _name: str, _version: int | None) -> pa.Table:
        return self._peers


class _Warehouse:
    """What the reader uses of a warehouse; its steps have no messages."""

    def __init__(self, rows: tuple[dict[str, Any], ...], peers: tuple[tuple[str, str, float], ...]) -> None:
        names = ("group_id", "trajectory_id", "trajectory_reward")
        kinds = (pa.string(), pa.string(), pa.float64())
        columns = [pa.array([peer[i] for peer in peers], kind) for i, kind in enumerate(kinds)]
        self.datasets = _Datasets(_table(rows), pa.table(columns, names=list(names)))

    def restored(self, rows: pa.Table, columns: list[str]) -> pa.RecordBatchReader:
        assert columns == ["media"]
        return pa.table({"media": pa.nulls(rows.num_rows, pa.list_(pa.string()))}).to_reader()


def _table(rows: tuple[dict[str, Any], ...]) -> pa.Table:
    schema = pa.schema(
        {
            "step_id": pa.string(),
            "trajectory_id": pa.string(),
            "group_id": pa.string(),
            "prompt_id": pa.string(),
            "trainable": pa.bool_(),
            "source": pa.string(),
            "sampling": pa.string(),
            "logprobs_mode": pa.string(),
            "fingerprint": pa.string(),
            "policy": pa.string(),
            "prompt_ids": pa.large_list(pa.int32()),
            "response_ids": pa.list_(pa.int32()),
            "logprobs": pa.list_(pa.float32()),
            "trajectory_reward": pa.float64(),
        }
    )
    return pa.Table.from_pylist(list(rows), schema=schema)


def _row(name: str, trajectory: str, group: str | None, reward: float | None, **changed: Any) -> dict[str, Any]:
    row = {
        "step_id": name,
        "trajectory_id": trajectory,
        "group_id": group,
        "prompt_id": "p",
        "trainable": True,
        "source": "engine",
        "sampling": '{"temperature":1.0,"seed":3}',
        "logprobs_mode": None,
        "fingerprint": "vllm:m",
        "policy": "m",
        "prompt_ids": [1, 2, 3],
        "response_ids": [len(name), 5],
        "logprobs": [-0.5, -0.25],
        "trajectory_reward": reward,
    }
    return row | changed


def _read(*rows: dict[str, Any], peers: tuple[tuple[str, str, float], ...] = (), **options: Any) -> list[GroupBatch]:
    return list(read_groups(cast(Warehouse, _Warehouse(rows, peers)), "math", 1, **options))


def test_each_group_is_one_batch_and_its_rows_name_their_steps() -> None:
    first, second = _read(
        _row("a", "t1", "g1", 1.0),
        _row("bb", "t1", "g1", 1.0),
        _row("ccc", "t2", "g1", 0.0),
        _row("dddd", "t3", "g2", 1.0),
    )
    assert (first.group_id, second.group_id) == ("g1", "g2")
    assert first.step_ids == ("a", "bb", "ccc")
    lengths = {
        first.step_ids[index]: first.batch.sequence(row)[3] for row, index in enumerate(first.batch.step_index.tolist())
    }
    assert lengths == {"a": 1, "bb": 2, "ccc": 3}


def test_advantages_compare_trajectories_not_steps() -> None:
    """Two steps of the winner and one of the loser: over steps the mean would be 2/3, over trajectories it is 1/2."""
    (group,) = _read(_row("a", "t1", "g", 1.0), _row("bb", "t1", "g", 1.0), _row("ccc", "t2", "g", 0.0))
    advantage = group.batch.advantage
    assert advantage is not None
    np.testing.assert_allclose(np.unique(advantage.round(4)), [-0.7071, 0.7071], atol=1e-4)


def test_the_baseline_is_of_the_whole_group_whatever_was_selected() -> None:
    """Of rewards 1, 1, 0, 0 only the ones were selected: their advantage is still above the mean of all four."""
    selected = (_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", 1.0))
    (group,) = _read(*selected, peers=(("g", "t3", 0.0), ("g", "t4", 0.0), ("other", "t5", -100.0)))
    assert group.batch.advantage is not None
    np.testing.assert_allclose(group.batch.advantage, 0.8660, atol=1e-4)
    (alone,) = _read(*selected)
    assert alone.batch.advantage is not None
    assert not alone.batch.advantage.any()


def test_the_baseline_is_of_the_whole_group_whatever_may_be_trained_on() -> None:
    """Nothing of the second trajectory may be trained on. It was sampled and rewarded, and stays in the mean."""
    rows = (_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", 0.0, trainable=False))
    (group,) = _read(*rows)
    assert group.step_ids == ("a",)
    assert group.batch.advantage is not None
    np.testing.assert_allclose(group.batch.advantage, 0.7071, atol=1e-4)


def test_a_side_call_does_not_hide_the_reward_of_its_trajectory() -> None:
    side = _row("a", "t1", "g", None, trainable=False)
    (group,) = _read(side, _row("bb", "t1", "g", 1.0), _row("ccc", "t2", "g", 0.0))
    assert group.batch.advantage is not None
    np.testing.assert_allclose(np.unique(group.batch.advantage.round(4)), [-0.7071, 0.7071], atol=1e-4)


def test_untrainable_and_derived_steps_give_no_loss_terms_unless_asked_for() -> None:
    rows = (
        _row("a", "t1", "g", 1.0),
        _row("bb", "t1", "g", 1.0, trainable=False),
        _row("ccc", "t2", "g", 0.0, source="tokenizer:gpt2"),
    )
    (group,) = _read(*rows)
    assert (group.step_ids, group.batch.occurrences) == (("a",), 2)
    assert float(group.batch.weight.sum()) == pytest.approx(1.0)
    (group,) = _read(*rows, include_untrainable=True)
    assert group.step_ids == ("a", "bb", "ccc")


def test_processed_logprobs_are_taken_at_any_temperature() -> None:
    bent = {"sampling": '{"temperature":0.6,"top_p":0.9}', "logprobs_mode": "processed_logprobs"}
    (group,) = _read(_row("a", "t1", "g", 1.0, **bent))
    assert group.batch.old_logprob is not None


def test_everything_is_checked_before_the_first_batch() -> None:
    rows = (_row("a", "t1", "g1", 1.0), _row("bb", "t2", "g2", None))
    with pytest.raises(InvalidRecord, match="t2"):
        read_groups(cast(Warehouse, _Warehouse(rows, ())), "math", 1)


def test_weights_add_up_to_one_over_the_whole_dataset() -> None:
    groups = _read(_row("a", "t1", "g1", 1.0), _row("bb", "t2", "g2", 1.0), _row("ccc", "t3", "g2", 0.0))
    assert sum(float(group.batch.weight.sum()) for group in groups) == pytest.approx(1.0)


def test_without_advantages_no_reward_is_needed_and_none_is_made_up() -> None:
    (group,) = _read(_row("a", "t1", "g", None), advantage="none")
    assert group.batch.advantage is None


def test_steps_without_a_group_are_a_group_of_their_own() -> None:
    first, second = _read(_row("a", "t1", "g", 1.0), _row("bb", "t2", None, 1.0), advantage="none")
    assert (first.group_id, second.group_id) == ("g", None)


@pytest.mark.parametrize(
    ("rows", "field", "words"),
    [
        ([_row("a", "t1", "g", 1.0, prompt_ids=None, response_ids=None, logprobs=None)], "prompt_ids", "first a"),
        (
            [_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", 1.0, fingerprint="vllm:other")],
            "fingerprint",
            "vllm:other",
        ),
        ([_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", 1.0, policy="other")], "policy", "one policy"),
        ([_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", None)], "trajectory_reward", "t2"),
        ([_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", 1.0, prompt_id="q")], "prompt_id", "different tasks"),
        ([_row("a", "t1", None, 1.0)], "group_id", "t1 has no group"),
        ([_row("a", "t1", "g", 1.0), _row("bb", "t2", "g", 1.0, logprobs=None)], "logprobs", "step bb of group 'g'"),
        ([_row("a", "t1", "g", 1.0, sampling='{"temperature":0.2}')], "logprobs", "temperature=0.2"),
        ([_row("a", "t1", "g", 1.0, sampling='{"top_p":0.5}')], "logprobs", "top_p=0.5"),
    ],
)
def test_what_cannot_be_trained_on_is_named(rows: list[dict[str, Any]], field: str, words: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        _read(*rows)
    assert refused.value.field == field
    assert words in str(refused.value)
