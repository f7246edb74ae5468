"""Plausible mistakes. Each must move the gradient far beyond any rounding, or the equalities would prove nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import attention, distance, merged, of_terms, per_target, terms_of, whole
from tests.trainer._losses import Terms, ppo_clip
from tests.trainer._model import Attend, Parameters, Tensor, masked, new_parameters
from tests.trainer._workloads import BRANCHING, SHAPE, records

from stepwell.reader import TreeBatch

Mistake = Callable[[Parameters, TreeBatch, dict[str, Tensor]], Terms]


def plain_causal_mask(parameters: Parameters, batch: TreeBatch, tensors: dict[str, Tensor]) -> Terms:
    size = batch.tokens_merged
    return terms_of(parameters, tensors, masked(torch.ones(size, size, dtype=torch.bool).tril()))


def positions_by_place(parameters: Parameters, batch: TreeBatch, tensors: dict[str, Tensor]) -> Terms:
    return terms_of(parameters, tensors | {"position_ids": torch.arange(batch.tokens_merged)}, _right(batch))


def source_before_the_target(parameters: Parameters, batch: TreeBatch, tensors: dict[str, Tensor]) -> Terms:
    return terms_of(parameters, tensors | {"target_source": tensors["target_position"] - 1}, _right(batch))


def averaged_advantages(parameters: Parameters, batch: TreeBatch, tensors: dict[str, Tensor]) -> Terms:
    """One term for each unique token: the means of its occurrences' values, and the sum of their weights."""
    terms, targets = terms_of(parameters, tensors, _right(batch)), tensors["occurrence_target"].long()
    counts = torch.bincount(targets)
    total = _total(targets, len(counts))
    one = per_target(terms, targets, lambda values: total(values) / counts)
    return replace(one, weight=total(terms.weight))


def counted_once(parameters: Parameters, batch: TreeBatch, tensors: dict[str, Tensor]) -> Terms:
    """The same, with the mean of the weights: shared tokens count as one."""
    terms, targets = terms_of(parameters, tensors, _right(batch)), tensors["occurrence_target"].long()
    counts = torch.bincount(targets)
    total = _total(targets, len(counts))
    return per_target(terms, targets, lambda values: total(values) / counts)


def first_occurrence_only(parameters: Parameters, batch: TreeBatch, tensors: dict[str, Tensor]) -> Terms:
    terms, targets = terms_of(parameters, tensors, _right(batch)), tensors["occurrence_target"].long()
    backwards = torch.arange(len(targets)).flip(0)
    first = torch.zeros(int(targets.max()) + 1, dtype=torch.long)
    for at in backwards.tolist():
        first[targets[at]] = at
    return per_target(terms, targets, lambda values: values[first])


def _right(batch: TreeBatch) -> Attend:
    return attention(batch, "dense")


def _total(targets: Tensor, count: int) -> Callable[[Any], Any]:
    return lambda values: torch.zeros(count, dtype=values.dtype).index_add(0, targets, values)


MISTAKES = (
    *(plain_causal_mask, positions_by_place, source_before_the_target),
    *(averaged_advantages, counted_once, first_occurrence_only),
)


@pytest.mark.parametrize("workload", BRANCHING)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_another_gradient(mistake: Mistake, workload: str) -> None:
    batch = whole(records(workload))
    parameters = new_parameters(SHAPE, torch.float64)
    right = merged(parameters, batch)["ppo_clip"]
    terms = mistake(parameters, batch, batch.to_torch())
    wrong = of_terms(parameters, terms, {"ppo_clip": ppo_clip})["ppo_clip"]
    assert distance(wrong, right) > 5e-3


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_no_mistake_shows_where_nothing_branches(mistake: Mistake) -> None:
    """Why the workloads must branch: on a single trajectory all of them are right."""
    batch = whole(records("one_trajectory"))
    parameters = new_parameters(SHAPE, torch.float64)
    wrong = of_terms(parameters, mistake(parameters, batch, batch.to_torch()), {"ppo_clip": ppo_clip})["ppo_clip"]
    assert distance(wrong, merged(parameters, batch)["ppo_clip"]) <= 1e-10
