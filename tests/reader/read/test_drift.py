"""A prompt that does not go on where the step before ended."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reader.read.test_reader import sequences, terms

from stepwell.reader import BatchReader
from stepwell.warehouse import Warehouse


@pytest.fixture
def drifted(told: Any) -> Warehouse:
    """Of the answer 3 4 5 the next prompt repeats 3 only; the turn after that is exact."""
    told.trajectory("t", "g")
    told.step("t", 0, [1, 2], [3, 4, 5])
    told.step("t", 1, [1, 2, 3, 9, 6], [7])
    told.step("t", 2, [1, 2, 3, 9, 6, 7], [8])
    told.reward("t", 1.0)
    told.trajectory("t", "g", state="completed")
    warehouse: Warehouse = told.commit()
    assert warehouse.query("SELECT drift_at FROM steps ORDER BY turn")["drift_at"].to_pylist() == [None, 3, None]
    return warehouse


def test_fork_keeps_both(drifted: Warehouse) -> None:
    reader = BatchReader(drifted, where="true", advantage=None)
    (batch,) = reader
    assert sequences(batch)["t.0"] == [1, 2, 3, 4, 5]
    assert (batch.occurrences, batch.report.tokens) == (5, 9)
    ((cause, count),) = reader.plan().drift.items()
    assert cause in ("retokenised", "unknown") and count == 1


def test_realign_gives_up_what_was_not_repeated(drifted: Warehouse) -> None:
    reader = BatchReader(drifted, where="true", advantage=None, on_drift="realign", merge="trajectory")
    (batch,) = reader
    assert sequences(batch) == {"t.0": [1, 2, 3], "t.1": [1, 2, 3, 9, 6, 7], "t.2": [1, 2, 3, 9, 6, 7, 8]}
    assert (batch.occurrences, batch.report.tokens) == (3, 7), "one line, without 4 and 5"
    assert reader.plan().total("terms") == 3
    (forked,) = BatchReader(drifted, where="true", advantage=None)
    kept = {key[:3] for key in terms(batch)}
    assert kept < {key[:3] for key in terms(forked)}, "nothing is trained that was not sampled"


def test_drop_leaves_the_drifted_step_out(drifted: Warehouse) -> None:
    reader = BatchReader(drifted, where="true", advantage=None, on_drift="drop")
    (batch,) = reader
    assert set(sequences(batch)) == {"t.0", "t.2"}
    assert reader.plan().left_out == {"drifted": 1}
