"""What must not be trained on: left out by rule and counted, or refused by name, or skipped and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import BatchReader
from stepwell.warehouse import Warehouse

Names = Callable[..., list[str]]


def good(told: Any) -> None:
    told.rollout("t1", "g", 1, 1.0)
    told.rollout("t2", "g", 1, 0.0)


def test_what_never_trains_is_counted_by_reason(told: Any, names_of: Names) -> None:
    good(told)
    told.trajectory("t3", "g")
    told.step("t3", 0, [1, 2], [3], split="eval")
    told.step("t3", 1, [1, 2, 3], [4], metadata={"tags": ["side"]})
    told.step("t3", 2, [1, 2, 4], [4], trainable=False, untrainable_reason="redacted")
    told.step("t3", 3, [1, 2, 5], [4], source="tokenizer:x")
    told.step("t3", 4, [1, 2, 6], [], logprobs=None)
    told.reward("t3", 0.5)
    told.trajectory("t3", "g", state="completed")
    reader = BatchReader(told.commit(), where="true")
    (batch,) = reader
    assert names_of(batch) == ["t1.0", "t2.0"]
    plan = reader.plan()
    assert plan.left_out == {
        "eval split": 1,
        "side call": 1,
        "ids not sampled by an engine": 1,
        "not trainable: redacted": 1,
        "not trainable: no token was sampled": 1,
    }
    assert plan.selected == 7 and plan.skipped == {}
    (asked_for,) = BatchReader(told.warehouse, where="true", derived=True)
    assert names_of(asked_for) == ["t1.0", "t2.0", "t3.3"]


def test_a_side_call_earns_nothing_and_costs_no_discount(told: Any) -> None:
    told.trajectory("t", "g")
    told.step("t", 0, [1, 2], [3])
    told.step("t", 1, [1, 2, 3], [4], metadata={"tags": ["side"]})
    told.reward("t", 1.0)
    told.trajectory("t", "g", state="completed")
    (batch,) = BatchReader(told.commit(), where="true", advantage="reinforce", loss="token-mean")
    (pack,) = batch
    assert pack.advantage is not None and pack.advantage.tolist() == [1.0]


SPOILED: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "raw logprobs": (
        {"sampling": {"temperature": 0.5}},
        "logprobs",
        "temperature=0.5",
        "has logprobs not of the distribution",
    ),
    "no logprobs": ({"logprobs": None}, "logprobs", "others have", "has no logprobs"),
    "no parent": ({"parent_id": "gone"}, "parent_id", "is not there", "the step that it continues"),
    "too long": ({"prompt_ids": [9] * 40}, "max_tokens", "of 30 tokens", "is longer than a pack"),
    "another policy": ({"policy": "sigma"}, "policy", "mixes policies", "its group mixes policies"),
    "another model": ({"fingerprint": "n"}, "fingerprint", "mixes models", "its group mixes models"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_a_fault_is_named_or_skipped_and_counted(told: Any, names_of: Names, kind: str) -> None:
    changed, field, words, reason = SPOILED[kind]
    good(told)
    told.rollout("u1", "h", 1, 1.0)
    told.trajectory("u2", "h")
    told.step("u2", 0, [1, 2], [3, 4], **changed)
    told.reward("u2", 0.0)
    told.trajectory("u2", "h", state="completed")
    warehouse = told.commit()
    with pytest.raises(InvalidRecord, match=words) as refused:
        BatchReader(warehouse, where="true", max_tokens=30)
    assert refused.value.field == field
    assert "'h'" in str(refused.value)
    reader = BatchReader(warehouse, where="true", max_tokens=30, on_error="skip")
    (batch,) = reader
    whole_group = kind.startswith("another")
    assert names_of(batch) == (["t1.0", "t2.0"] if whole_group else ["t1.0", "t2.0", "u1.0"])
    ((found, count),) = reader.plan().skipped.items()
    assert found.startswith(reason) and count == (2 if whole_group else 1)


def test_raw_logprobs_do_no_harm_where_none_are_wanted(told: Any) -> None:
    told.rollout("t1", "g", 1, 1.0, sampling={"temperature": 0.5})
    warehouse = told.commit()
    without: list[dict[str, Any]] = [{"old_logprobs": False}, {"advantage": None}]
    for options in without:
        (batch,) = BatchReader(warehouse, where="true", **options)
        assert all(pack.old_logprob is None and pack.ref_logprob is None for pack in batch)
    with pytest.raises(InvalidRecord, match="distribution"):
        BatchReader(warehouse, where="true", advantage=None, old_logprobs=True)


def test_processed_logprobs_are_those_of_the_distribution(told: Any) -> None:
    told.rollout("t1", "g", 1, 1.0, sampling={"temperature": 0.5}, logprobs_mode="processed_logprobs")
    (batch,) = BatchReader(told.commit(), where="true")
    assert all(pack.old_logprob is not None for pack in batch)


def test_a_trajectory_without_reward_or_end_is_not_compared(told: Any, names_of: Names) -> None:
    good(told)
    told.trajectory("t3", "g")
    told.step("t3", 0, [1, 2], [3])
    told.trajectory("t3", "g", state="completed")
    told.trajectory("t4", "g")
    told.step("t4", 0, [1, 2], [4])
    told.reward("t4", 9.0)
    warehouse = told.commit()
    with pytest.raises(InvalidRecord, match=r"t[34]"):
        list(BatchReader(warehouse, where="true"))
    reader = BatchReader(warehouse, where="true", on_error="skip")
    (batch,) = reader
    assert names_of(batch) == ["t1.0", "t2.0"]
    assert reader.plan().left_out == {"incomplete": 1, "no reward": 1} == batch.skipped
    (taken,) = BatchReader(warehouse, where="true", on_error="skip", unended=True)
    assert names_of(taken) == ["t1.0", "t2.0", "t4.0"]


def test_no_batch_has_two_policies(told: Any) -> None:
    for number in range(4):
        policy = "pi" if number % 2 else "sigma"
        told.rollout(f"t{number}", f"g{number}", 1, 1.0, policy=policy, fingerprint=policy)
    warehouse = told.commit()
    batches = list(BatchReader(warehouse, where="true", groups_per_step=4))
    assert len(batches) == 2
    of = dict(zip(*warehouse.query("SELECT step_id, policy FROM steps").to_pydict().values(), strict=True))
    for batch in batches:
        assert len({of[name] for name in batch.steps["step_id"].to_pylist()}) == 1


def test_nothing_left_is_an_error_that_says_why(told: Any) -> None:
    told.trajectory("t", "g")
    told.step("t", 0, [1, 2], [3], split="eval")
    with pytest.raises(InvalidRecord, match="1 eval split"):
        BatchReader(told.commit(), where="true")


class _Spoiling:
    """A warehouse that hands out other values than it says."""

    def __init__(self, warehouse: Warehouse, column: str, step: str, change: Callable[[list[Any]], list[Any]]) -> None:
        self._warehouse, self._column, self._step, self._change = warehouse, column, step, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._warehouse, name)

    def restored(self, rows: pa.Table, columns: Any) -> pa.RecordBatchReader:
        table = self._warehouse.restored(rows, columns).read_all()
        values = table[self._column].to_pylist()
        place = rows["step_id"].to_pylist().index(self._step)
        values[place] = self._change(values[place])
        kind = table.schema.field(self._column).type
        at = table.column_names.index(self._column)
        return table.set_column(at, self._column, pa.array(values, kind)).to_reader()


@pytest.mark.parametrize(
    ("column", "change", "reason"),
    [
        ("logprobs", lambda values: [float("nan"), *values[1:]], "not finite"),
        ("logprobs", lambda values: values[1:], "not as many"),
        ("response_ids", lambda values: [*values, 7], "not as many"),
        ("prompt_ids", lambda values: [-1, *values[1:]], "negative"),
        ("prompt_ids", lambda _: None, "not as many"),
    ],
)
def test_what_only_the_tokens_show_is_named_or_skipped(
    told: Any, names_of: Names, column: str, change: Any, reason: str
) -> None:
    good(told)
    told.rollout("t3", "g", 2, 0.0)
    warehouse: Any = _Spoiling(told.commit(), column, "t3.0", change)
    with pytest.raises(InvalidRecord, match=reason) as refused:
        list(BatchReader(warehouse, where="true"))
    assert refused.value.field == column
    assert "t3.0" in str(refused.value)
    (batch,) = BatchReader(warehouse, where="true", on_error="skip")
    assert names_of(batch) == ["t1.0", "t2.0", "t3.1"]
    assert sum(batch.skipped.values()) == 1
    assert sum(float(pack.weight.sum()) for pack in batch) == pytest.approx(1.0), "of the terms that there are"
    advantage = np.concatenate([pack.advantage for pack in batch if pack.advantage is not None])
    assert advantage.min() == pytest.approx(-1 / 3 / np.std([1, 0, 0], ddof=1), 1e-4), (
        "the baseline is that of the group"
    )


def test_an_optimizer_step_of_which_nothing_is_left_is_told(told: Any, caplog: pytest.LogCaptureFixture) -> None:
    told.rollout("t1", "g", 1, 1.0)
    told.rollout("t2", "g", 1, 0.0)
    warehouse: Any = told.commit()
    for step in ("t1.0", "t2.0"):
        warehouse = _Spoiling(warehouse, "logprobs", step, _shorter)
    assert list(BatchReader(warehouse, where="true", on_error="skip")) == []
    assert "nothing is left of optimizer step 0, epoch 0" in caplog.text and "': 2}" in caplog.text


def _shorter(values: list[float]) -> list[float]:
    return values[1:]
