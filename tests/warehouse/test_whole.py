"""What restoring says when something is missing, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import StoreError
from stepwell.sdk.records import Step
from stepwell.warehouse._schema import STEPS
from stepwell.warehouse._whole import ENCODED, WHOLE, readable, restore

Store = Callable[[list[Step]], pa.Table]
PROMPT = list(range(30))


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def pair(linked: Store) -> pa.Table:
    """A step, and one that is stored as the difference to it."""
    first = {"role": "user", "content": "q"}
    steps = [
        Step(
            step_id="a",
            trajectory_id="t",
            prompt_ids=PROMPT,
            response_ids=[1, 2],
            messages=[first],
            response=says("yes"),
        ),
        Step(
            step_id="b",
            trajectory_id="t",
            prompt_ids=[*PROMPT, 1, 2, 3],
            response_ids=[4],
            messages=[first, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}],
            response=says("no"),
        ),
    ]
    return linked(steps)


def test_rows_may_come_in_any_order(pair: pa.Table) -> None:
    whole = restore(pair.take(pa.array([1, 0])))
    assert whole["step_id"].to_pylist() == ["b", "a"]
    assert whole["prompt_ids"].to_pylist() == [[*PROMPT, 1, 2, 3], PROMPT]


def test_a_missing_base_is_named(pair: pa.Table) -> None:
    with pytest.raises(StoreError, match="step b refers to step a, which is not there"):
        restore(pair.slice(1))


@pytest.mark.parametrize(("column", "what"), [("prompt_shared", "prompt"), ("messages_shared", "messages")])
def test_a_base_that_does_not_fit_is_named(pair: pa.Table, column: str, what: str) -> None:
    place = pair.column_names.index(column)
    damaged = pair.set_column(place, pair.schema.field(column), pa.array([0, 99], pa.int32()))
    with pytest.raises(StoreError, match=f"the {what} of step b cannot be restored"):
        restore(damaged)


def test_empty_in_empty_out() -> None:
    whole = restore(STEPS.schema.empty_table())
    assert whole.num_rows == 0
    assert set(WHOLE) <= set(whole.column_names)


def test_storage_columns_are_not_readable(pair: pa.Table) -> None:
    names = readable(STEPS.schema.names)
    assert not {*ENCODED, "ledger"} - {"tools"} & set(names)
    assert names[-3:] == list(WHOLE)
    assert set(restore(pair).column_names) == {*names, "ledger"}
