from __future__ import annotations

from typing import Any, Literal

import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import assert_equal, merged, unmerged, whole
from tests.trainer._model import new_parameters
from tests.trainer._workloads import SHAPE, WORKLOADS, records


@pytest.mark.parametrize("kernel", ["dense", "chains"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_merged_batch_has_the_gradients_of_its_steps(
    workload: str, dtype: Any, kernel: Literal["dense", "chains"]
) -> None:
    steps = records(workload)
    batch = whole(steps)
    assert batch.merge_ratio > 1.5
    assert batch.occurrences == steps.terms
    parameters = new_parameters(SHAPE, dtype)
    assert_equal(merged(parameters, batch, kernel), unmerged(parameters, steps))


@pytest.mark.parametrize("seed", range(1, 6))
def test_whatever_the_steps_are(seed: int) -> None:
    steps = records(("rewritten", "corners")[seed % 2], seed)
    parameters = new_parameters(SHAPE, torch.float64, seed)
    assert_equal(merged(parameters, whole(steps), "chains"), unmerged(parameters, steps))
