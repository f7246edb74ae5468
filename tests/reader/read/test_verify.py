"""Content that is not what was stored: found on request, named, or skipped and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import BatchReader
from stepwell.warehouse import Warehouse

Names = Callable[..., list[str]]


@pytest.fixture
def stored(told: Any) -> Warehouse:
    """Two trajectories with two turns each, as a dataset too."""
    told.rollout("t1", "g", 2, 1.0)
    told.rollout("t2", "g", 2, 0.0)
    warehouse: Warehouse = told.commit()
    warehouse.datasets.create("d", "true")
    return warehouse


def change(warehouse: Warehouse, column: str, value: Any, step: str) -> None:
    """In the files, behind the warehouse's back."""
    rows = warehouse.tables["steps"].dataset.to_table(filter=f"step_id = '{step}'")
    field = rows.schema.field(column)
    index = rows.schema.get_field_index(column)
    changed = rows.set_column(index, field, pa.array([value], field.type))
    warehouse.tables["steps"].dataset.merge_insert("step_id").when_matched_update_all().execute(changed)


CHANGES: dict[str, tuple[str, Any]] = {
    "an id": ("response_ids", [7, 8]),
    "a logprob": ("logprobs", [-0.25, -0.125]),
    "an id of the prompt": ("prompt_suffix", [1, 2, 3, 4, 6]),
    "a text": ("response", '{"role":"assistant","content":"no"}'),
    "the hash": ("content_hash", "0" * 32),
}


@pytest.mark.parametrize("asked", [{"where": "true"}, {"dataset": "d"}], ids=["where", "dataset"])
@pytest.mark.parametrize("kind", CHANGES)
def test_another_content_is_named_or_skipped_and_counted(
    stored: Warehouse, names_of: Names, kind: str, asked: dict[str, Any]
) -> None:
    column, value = CHANGES[kind]
    change(stored, column, value, "t1.0")
    same = kind == "the hash" and "dataset" in asked  # the dataset knows better: its steps are what it froze
    every = ["t1.0", "t1.1", "t2.0", "t2.1"]
    (unseen,) = BatchReader(stored, **asked)
    assert names_of(unseen) == every
    if same:
        (batch,) = BatchReader(stored, **asked, verify=True)
        assert names_of(batch) == every
        return
    with pytest.raises(InvalidRecord, match=r"step t1\.0: its content is not what was stored") as caught:
        list(BatchReader(stored, **asked, verify=True))
    assert caught.value.field == "content_hash"
    (batch,) = BatchReader(stored, **asked, verify=True, on_error="skip")
    assert names_of(batch) == every[1:]
    assert batch.skipped == {"content_hash: its content is not what was stored": 1}
    assert batch.occurrences == 2 * len(batch.steps)
    for pack in batch:
        assert pack.weight.tolist() == pytest.approx([1 / batch.occurrences] * pack.occurrences)


def test_a_dataset_of_which_a_step_was_replaced(stored: Warehouse) -> None:
    """The step agrees with the hash beside it, and not with the one that was frozen."""
    stored.tables["dataset_rows"].dataset.update({"content_hash": f"'{'0' * 32}'"}, where="step_id = 't2.1'")
    assert sum(len(batch.steps) for batch in BatchReader(stored, where="true", verify=True)) == 4
    with pytest.raises(InvalidRecord, match=r"content_hash: step t2\.1"):
        list(BatchReader(stored, dataset="d", verify=True))


@pytest.mark.parametrize("per_step", [1, None])
def test_what_was_not_changed_passes(plain: Warehouse, per_step: int | None) -> None:
    """Across batches too, in another order of groups each epoch."""
    asked: dict[str, Any] = {"where": "true", "groups_per_step": per_step, "seed": 1}
    checked, unchecked = BatchReader(plain, **asked, verify=True), BatchReader(plain, **asked)
    for _ in range(2):
        for one, other in zip(checked, unchecked, strict=True):
            assert one.skipped == {} and one.steps.equals(other.steps)
            for pack, same in zip(one, other, strict=True):
                assert pack.input_ids.tolist() == same.input_ids.tolist()
