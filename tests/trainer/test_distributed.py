from __future__ import annotations

from pathlib import Path

import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._distributed import run
from tests.trainer._gradients import assert_equal, unmerged
from tests.trainer._model import new_parameters
from tests.trainer._packs import packed
from tests.trainer._workloads import SHAPE, records

RANKS = 2
BUDGETS = {"groups": 100, "rewritten": 90}
"""Tokens of a pack; with those of `rewritten` one rank has a pack less to compute than the other."""


@pytest.mark.parametrize("workload", BUDGETS)
def test_averaged_over_ranks_and_packs_times_the_factor_is_the_whole_gradient(workload: str, tmp_path: Path) -> None:
    steps, budget = records(workload), BUDGETS[workload]
    packs = packed(steps, budget, RANKS)
    assert any(not pack.tokens_merged for pack in packs[-1]) == (workload == "rewritten")
    torch.multiprocessing.spawn(run, (RANKS, str(tmp_path), workload, budget), nprocs=RANKS)
    wanted = unmerged(new_parameters(SHAPE, torch.float64), steps)
    for rank in range(RANKS):
        assert_equal(torch.load(tmp_path / f"{rank}.pt"), wanted)
