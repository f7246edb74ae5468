from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import added, assert_equal, merged, unmerged, whole
from tests.trainer._model import new_parameters
from tests.trainer._packs import packed
from tests.trainer._workloads import BRANCHING, SHAPE, WORKLOADS, records

from stepwell.reader import PrefixOrder, merge, prefix_order


@pytest.mark.parametrize(
    ("ranks", "slack", "dtype"),
    [(1, 8, torch.float64), (3, 8, torch.float64), (3, 8, torch.float32), (1, 45, torch.float64)],
)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_packs_within_a_budget_add_up_to_the_steps(workload: str, ranks: int, slack: int, dtype: Any) -> None:
    """With more slack, pieces of one tree meet again in a pack and share what they still have in common."""
    steps = records(workload)
    budget = max(len(prompt) + len(response) for prompt, response in steps.turns) + slack
    packs = packed(steps, budget, ranks)
    flat = [pack for packs_of_rank in packs for pack in packs_of_rank if pack.tokens_merged]
    assert len(packs) == ranks
    assert len({len(packs_of_rank) for packs_of_rank in packs}) == 1
    assert len(flat) > 1 or workload == "one_trajectory" or slack > 8
    assert max(pack.tokens_merged for pack in flat) <= budget
    assert sum(pack.occurrences for pack in flat) == steps.terms
    parameters = new_parameters(SHAPE, dtype)
    assert_equal(added([merged(parameters, pack) for pack in flat]), unmerged(parameters, steps))


@pytest.mark.parametrize("workload", BRANCHING)
def test_a_pack_per_step_and_a_cut_in_the_middle(workload: str) -> None:
    steps = records(workload)
    sequences, order = steps.sequences(), prefix_order(steps.sequences())
    parameters = new_parameters(SHAPE, torch.float64)
    wanted = unmerged(parameters, steps)
    count = len(sequences)
    for borders in (range(count + 1), (0, count // 2, count)):
        parts = []
        for start, stop in pairwise(borders):
            shared = order.shared[start:stop].copy()
            shared[0] = 0
            prefixes = PrefixOrder(order.order[start:stop], shared)
            ref = np.concatenate(steps.ref)
            pack = merge(sequences, advantage=steps.advantage, ref_logprob=ref, prefixes=prefixes)
            parts.append(merged(parameters, pack))
        assert_equal(added(parts), wanted)


@pytest.mark.parametrize("snapped", [4, 16])
def test_sharing_less_computes_more_and_changes_nothing(snapped: int) -> None:
    """Kernels like blocks: prefixes may be shared in multiples of a block only."""
    steps = records("groups")
    order = prefix_order(steps.sequences())
    less = whole(steps, prefixes=PrefixOrder(order.order, order.shared // snapped * snapped))
    assert less.tokens_merged > whole(steps).tokens_merged
    parameters = new_parameters(SHAPE, torch.float64)
    assert_equal(merged(parameters, less), unmerged(parameters, steps))
