"""From the warehouse to the gradient: whatever the reader merges, packs and distributes, it is that of the steps as they were told."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import (
    Gradients,
    added,
    assert_equal,
    attention,
    distance,
    of_terms,
    terms_of,
    unmerged,
)
from tests.trainer._model import Parameters, new_parameters
from tests.trainer._stored import Rollout, stored
from tests.trainer._workloads import SHAPE, Records, records_of, rewritten_rollouts

from stepwell.reader import BatchReader, LossWeights, TreeBatches
from stepwell.warehouse import Warehouse

GROUP = 4
"""Rollouts of one prompt, of unequal numbers of turns."""


@pytest.fixture(scope="module")
def told() -> tuple[list[Rollout], Records]:
    """Two prompt groups behind one system prompt, and a rollout that rewrites its history; and the steps with their advantages."""
    random = np.random.default_rng(3)
    turns = rewritten_rollouts(random, groups=2, rollouts=GROUP)
    rewards = random.normal(0, 1, len(turns))
    by_group = rewards.reshape(-1, GROUP)
    centred = by_group - by_group.mean(1, keepdims=True)
    advantage = (centred / (by_group.std(1, ddof=1, keepdims=True) + 1e-6)).ravel()
    owner = np.repeat(np.arange(len(turns)), [len(own) for own in turns])
    steps = records_of([turn for own in turns for turn in own], random, advantage=advantage[owner])
    rollouts = []
    for number, own in enumerate(turns):
        logprobs = [steps.old[at] for at in np.flatnonzero(owner == number)]
        rollouts.append(Rollout(f"r{number}", f"g{number // GROUP}", float(rewards[number]), own, logprobs))
    return rollouts, replace(steps, ref=steps.old)


@pytest.fixture(scope="module")
def warehouse(told: tuple[list[Rollout], Records], tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return stored(told[0], tmp_path_factory.mktemp("stored"))


def of_batches(parameters: Parameters, batches: TreeBatches) -> Gradients:
    parts = []
    for pack in batches:
        tensors = pack.to_torch()
        assert "ref_logprob" not in tensors, "nobody gave any"
        tensors["ref_logprob"] = tensors["old_logprob"]
        if pack.tokens_merged:
            parts.append(of_terms(parameters, terms_of(parameters, tensors, attention(pack, "chains"))))
    return added(parts)


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("merge", ["tree", "trajectory", "none"])
def test_every_way_to_merge_is_the_same_gradient(
    warehouse: Warehouse,
    told: tuple[list[Rollout], Records],
    merge: Literal["tree", "trajectory", "none"],
    ranks: int,
) -> None:
    _, steps = told
    [batches] = BatchReader(warehouse, where="true", merge=merge, max_tokens=110, ranks=ranks)
    assert len(batches.packs) == ranks
    assert batches.occurrences == steps.terms
    assert sum(len(pack.input_ids) > 0 for pack in batches) > 1
    parameters = new_parameters(SHAPE, torch.float64)
    assert_equal(of_batches(parameters, batches), unmerged(parameters, steps))


@pytest.mark.parametrize("merge", ["tree", "trajectory", "none"])
@pytest.mark.parametrize("sequence", ["step", "trajectory"])
def test_a_sequence_is_what_was_said_and_not_what_was_merged(
    warehouse: Warehouse,
    told: tuple[list[Rollout], Records],
    sequence: Literal["step", "trajectory"],
    merge: Literal["tree", "trajectory", "none"],
) -> None:
    rollouts, steps = told
    lengths = np.array([flags.sum() for flags in steps.trained])
    owner = np.repeat(np.arange(len(rollouts)), [len(rollout.turns) for rollout in rollouts])
    if sequence == "trajectory":
        lengths = np.bincount(owner, lengths)[owner]
    count = len(steps.turns) if sequence == "step" else len(rollouts)
    weighed = replace(steps, weight=(1 / (count * lengths)).astype(np.float32))
    loss = LossWeights("sequence-mean", sequence=sequence)
    [batches] = BatchReader(warehouse, where="true", loss=loss, merge=merge, max_tokens=150, ranks=2)
    parameters = new_parameters(SHAPE, torch.float64)
    assert_equal(of_batches(parameters, batches), unmerged(parameters, weighed))


def test_a_tree_computes_fewer_tokens_than_trajectories(warehouse: Warehouse) -> None:
    sizes = []
    for merge in ("tree", "trajectory", "none"):
        [batches] = BatchReader(warehouse, where="true", merge=merge, max_tokens=1000)
        sizes.append(sum(pack.tokens_merged for pack in batches))
    assert sizes[0] < 0.9 * sizes[1] < 0.8 * sizes[2]


def test_optimizer_steps_are_means_of_their_own(warehouse: Warehouse, told: tuple[list[Rollout], Records]) -> None:
    """A group per optimizer step: each step's weights are over its own terms."""
    _, steps = told
    parameters = new_parameters(SHAPE, torch.float64)
    parts = list(BatchReader(warehouse, where="true", groups_per_step=1, max_tokens=1000))
    assert len(parts) == 2
    shares = [part.occurrences / steps.terms for part in parts]
    found = [of_batches(parameters, part) for part in parts]
    wanted = unmerged(parameters, steps)
    for name, gradient in wanted.items():
        summed = sum(share * part[name] for share, part in zip(shares, found, strict=True))
        assert distance(summed, gradient) <= 1e-6, (
            "weights are float32, and those of each step are rounded by themselves"
        )
