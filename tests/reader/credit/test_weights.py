"""Loss weights against their definition, and that neither merging nor ranks can move the objective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.credit import oracle
from tests.reader.credit.forest import Trajectory, chain, rollouts, trajectories

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences, merge
from stepwell.reader._credit import LossWeights, assign, gradient_factor

REDUCTIONS = st.builds(
    lambda reduction, sequence: LossWeights(reduction, sequence, 100 if reduction == "dr-grpo" else None),
    st.sampled_from(["token-mean", "sequence-mean", "trajectory-mean", "dr-grpo"]),
    st.sampled_from(["step", "trajectory"]),
)


@settings(max_examples=150)
@given(trajectories(), REDUCTIONS)
def test_every_reduction_is_its_definition(given_: list[Trajectory], how: LossWeights) -> None:
    credit = assign(rollouts(given_), "none", how)
    assert credit.weight.dtype == np.float32
    expected = oracle.weights(given_, [[step.selected for step in one.steps] for one in given_], how)
    np.testing.assert_allclose(credit.weight, [value for row in expected for value in row], rtol=1e-6)


@settings(max_examples=60)
@given(trajectories(), REDUCTIONS)
def test_means_add_up_to_one(given_: list[Trajectory], how: LossWeights) -> None:
    data = rollouts(given_)
    credit = assign(data, "none", how)
    total = float((credit.weight * data.response_length).sum())
    some = bool((data.response_length * data.selected).any())
    if how.reduction == "dr-grpo":
        used = np.unique(how.sequences(data)[data.selected & (data.response_length > 0)])
        terms = int((data.response_length * data.selected).sum())
        assert total == pytest.approx(terms / (100 * len(used)) if some else 0.0)
    else:
        assert total == pytest.approx(float(some))


def test_by_hand() -> None:
    """Trajectory 0 has two steps with 2 and 6 terms, trajectory 1 one step with 2 and one without any."""
    given_ = [chain(None, None), chain(None, None)]
    given_[0].steps[1].length = 6
    given_[1].steps[1].length = 0
    data = rollouts(given_)

    def weights(*args: Any) -> list[float]:
        return [round(float(value), 6) for value in assign(data, "none", LossWeights(*args)).weight]

    assert weights("token-mean") == [0.1, 0.1, 0.1, 0.0]
    assert weights("sequence-mean") == [round(1 / 6, 6), round(1 / 18, 6), round(1 / 6, 6), 0.0]
    assert weights("sequence-mean", "trajectory") == [0.0625, 0.0625, 0.25, 0.0]
    assert weights("trajectory-mean", "step") == [0.0625, 0.0625, 0.25, 0.0]
    assert weights("dr-grpo", "step", 8) == [round(1 / 24, 6)] * 3 + [0.0]
    assert weights("dr-grpo", "trajectory", 8) == [0.0625] * 3 + [0.0]


def test_what_is_not_trained_weighs_nothing_in_the_mean() -> None:
    given_ = [chain(None, None, final=1.0), chain(None, complete=False)]
    given_[0].steps[0].selected = False
    given_[1].steps[0].selected = False
    assert assign(rollouts(given_), "grpo").weight.tolist() == [0.0, 0.5, 0.0]


def test_sequences_are_steps_or_trajectories_by_choice() -> None:
    data = rollouts([chain(None, None), chain(None)])
    assert LossWeights().sequences(data).tolist() == [0, 1, 2]
    assert LossWeights(sequence="trajectory").sequences(data).tolist() == [0, 0, 1]


@given(trajectories(whole=True), REDUCTIONS, st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40)
def test_neither_merging_nor_ranks_change_the_objective(
    given_: list[Trajectory], how: LossWeights, ranks: int, micro: int
) -> None:
    """The loss is that of a sum over all terms, in one batch or merged on each of several ranks whose gradients are averaged."""
    data = rollouts(given_)
    credit = assign(data, "grpo", how)
    advantage = credit.advantage
    assert advantage is not None
    rows = np.flatnonzero(credit.trained)
    prompts = [[int(data.trajectory[row]) % 2, 5] for row in rows]
    responses = [[index % 3 for index in range(data.response_length[row])] for row in rows]
    sequences = Sequences.from_lists(prompts, responses)

    def loss(part: Any) -> float:
        batch = merge(sequences.select(part), advantage=advantage[rows][part], weight=credit.weight[rows][part])
        assert batch.advantage is not None
        return float((batch.weight.astype(float) * batch.advantage).sum())

    whole = float((credit.weight[rows].astype(float) * advantage[rows] * data.response_length[rows]).sum())
    order = np.arange(len(rows))
    assert loss(order) == pytest.approx(whole, abs=1e-6)
    factor = gradient_factor(ranks, micro)
    of_rank = [np.mean([factor * loss(order[rank::ranks][at::micro]) for at in range(micro)]) for rank in range(ranks)]
    assert np.mean(of_rank) == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("mean",), "weight.reduction"),
        (("token-mean", "turn"), "weight.sequence"),
        (("dr-grpo",), "weight.length"),
        (("token-mean", "step", 10), "weight.length"),
        (("dr-grpo", "step", 0), "weight.length"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], field: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        LossWeights(*arguments)
    assert refused.value.field == field


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_a_factor_needs_ranks(numbers: tuple[int, int]) -> None:
    with pytest.raises(InvalidRecord, match="must be at least 1"):
        gradient_factor(*numbers)
