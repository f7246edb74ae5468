"""One ratio per trajectory (GSPO): unmerged, merged, packed and distributed it is one objective. Plausible shortcuts are others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer import _sequences
from tests.trainer._gradients import distance, unmerged, whole
from tests.trainer._model import Parameters, new_parameters
from tests.trainer._packs import packed
from tests.trainer._stored import Rollout, stored
from tests.trainer._workloads import SHAPE, Records, records_of, rewritten_rollouts

from stepwell.reader import Advantage, BatchReader, LossWeights, TreeBatch
from stepwell.warehouse import Warehouse

GROUP = 4
EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}
Way = Literal["tree", "trajectory", "none"]


@pytest.fixture(scope="module")
def told() -> tuple[list[Rollout], Records]:
    """Rollouts of one to eight turns in two groups; every second one calls a sub-agent in the end, whose prompt is its own. A rollout is a
    sequence, and weights are those of the mean over sequences of their token means."""
    random = np.random.default_rng(5)
    turns = rewritten_rollouts(random, groups=2, rollouts=GROUP)
    for own in turns[::2]:
        prompt, response, said = (random.integers(3, SHAPE.vocabulary, size).tolist() for size in (30, 9, 7))
        own += [(prompt, response), ([*prompt, *response], said)]
    rewards = random.normal(0, 1, len(turns))
    centred = (rewards.reshape(-1, GROUP) - rewards.reshape(-1, GROUP).mean(1, keepdims=True)).ravel()
    owner = np.repeat(np.arange(len(turns)), [len(own) for own in turns])
    steps = records_of([turn for own in turns for turn in own], random, advantage=centred[owner])
    lengths = np.bincount(owner, [len(response) for _, response in steps.turns])
    weight = (1 / (len(turns) * lengths[owner])).astype(np.float32)
    rollouts = [
        Rollout(
            f"r{at}",
            f"g{at // GROUP}",
            float(rewards[at]),
            own,
            [steps.old[row] for row in np.flatnonzero(owner == at)],
        )
        for at, own in enumerate(turns)
    ]
    return rollouts, replace(steps, weight=weight, sequence=owner, ref=steps.old)


@pytest.fixture(scope="module")
def warehouse(told: tuple[list[Rollout], Records], tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return stored(told[0], tmp_path_factory.mktemp("stored"))


def reference(parameters: Parameters, steps: Records) -> Any:
    """Step by step, and the ratio as the paper has it, over all tokens of a sequence at once."""
    found = unmerged(parameters, steps)["gspo"]
    assert found.norm() > 1e-3
    return found


def packs_of(steps: Records, budget: int, ranks: int) -> list[TreeBatch]:
    """Those of all ranks. Some trajectories are in several packs."""
    packs = [pack for some in packed(steps, budget, ranks) for pack in some if pack.tokens_merged]
    owners = [set(steps.sequence[pack.step_index].tolist()) for pack in packs]
    assert sum(map(len, owners)) > len(set().union(*owners))
    return packs


@pytest.mark.parametrize("dtype", EXACT, ids=["fp64", "fp32"])
def test_merged_and_split_over_packs_and_ranks(told: tuple[list[Rollout], Records], dtype: Any) -> None:
    steps, parameters = told[1], new_parameters(SHAPE, dtype)
    sequence, wanted = torch.from_numpy(steps.sequence), reference(parameters, steps)
    together = whole(steps, weight=steps.weight)
    assert together.merge_ratio > 1.5
    for packs in ([together], packs_of(steps, 110, 1), packs_of(steps, 90, 3)):
        assert distance(_sequences.gradient(parameters, packs, sequence), wanted) <= EXACT[dtype]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("merge", ["tree", "trajectory", "none"])
def test_from_the_warehouse(warehouse: Warehouse, told: tuple[list[Rollout], Records], merge: Way, ranks: int) -> None:
    steps, parameters = told[1], new_parameters(SHAPE, torch.float64)
    how: dict[str, Any] = {
        "advantage": Advantage("grpo", std=False),
        "loss": LossWeights("sequence-mean", sequence="trajectory"),
        "max_tokens": 90,
    }
    [batches] = BatchReader(warehouse, where="true", merge=merge, ranks=ranks, **how)
    packs = [pack for pack in batches if pack.tokens_merged]
    owners = [set(steps.sequence[pack.step_index].tolist()) for pack in packs]
    assert sum(map(len, owners)) > len(set().union(*owners)), "some trajectories are in several packs"
    names = batches.steps["trajectory_id"].combine_chunks().dictionary_encode()
    found = _sequences.gradient(parameters, packs, torch.from_numpy(names.indices.to_numpy().astype(np.int64)))
    assert distance(found, reference(parameters, steps)) <= 1e-10


MISTAKES = {
    "a ratio per step": lambda parameters, packs, sequence: _sequences.gradient(
        parameters, packs, torch.arange(len(sequence))
    ),
    "a ratio per pack": _sequences.gradient_of_each_pack,
    "only the terms at hand": _sequences.gradient_of_own_terms,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_another_gradient(told: tuple[list[Rollout], Records], mistake: str) -> None:
    steps, parameters = told[1], new_parameters(SHAPE, torch.float64)
    sequence = torch.from_numpy(steps.sequence)
    wrong = MISTAKES[mistake](parameters, packs_of(steps, 90, 3), sequence)
    assert distance(wrong, reference(parameters, steps)) > 5e-3
