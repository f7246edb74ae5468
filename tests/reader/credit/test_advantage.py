"""What a user may say about advantages, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.reader.credit.forest import chain, rollouts

from stepwell.errors import InvalidRecord
from stepwell.reader._credit import Advantage, Rollouts, assign


def test_what_a_reader_may_be_given() -> None:
    def own(given: Rollouts) -> list[float]:
        return [0.0] * len(given)

    assert Advantage.of(None) == Advantage("none")
    assert Advantage.of("rloo") == Advantage("rloo")
    assert Advantage.of(own).kind == "callable"
    given = Advantage("step", discount=0.5)
    assert Advantage.of(given) is given


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"estimator": "gae"}, "advantage", "'gae' is unknown; use a callable, or one of none, reinforce, grpo"),
        ({"estimator": "callable"}, "advantage", "'callable' is unknown"),
        ({"estimator": 3}, "advantage", "3 is unknown"),
        ({"baseline": "all"}, "advantage.baseline", "must be one of"),
        ({"missing": "zero"}, "advantage.missing", "must be one of"),
        ({"estimator": "step", "discount": 1.5}, "advantage.discount", "between 0 and 1"),
        ({"estimator": "step", "discount": float("nan")}, "advantage.discount", "finite"),
        ({"eps": -1.0}, "advantage.eps", "between 0 and inf"),
        ({"absent": float("inf")}, "advantage.absent", "finite"),
        ({"rewards": {"a": 1e9}}, "advantage.rewards['a']", "between -1e+06 and 1e+06"),
        ({"rewards": {}}, "advantage.rewards", "gives no reward a weight"),
        ({"rewards": {"a": 0.0}}, "advantage.rewards", "gives no reward a weight"),
        ({"discount": 0.9}, "advantage.discount", "means nothing to 'grpo';"),
        ({"estimator": "rloo", "std": False}, "advantage.std", "means nothing to 'rloo';"),
        ({"estimator": "step", "eps": 0.1}, "advantage.eps", "means nothing to 'step' without whiten"),
        ({"estimator": "reinforce", "baseline": "selected"}, "advantage.baseline", "'reinforce' without whiten"),
        ({"std": False, "eps": 0.1}, "advantage.eps", "means nothing to 'grpo' without std"),
        ({"estimator": "none", "rewards": {"a": 1.0}}, "advantage.rewards", "means nothing to 'none'"),
        ({"estimator": len, "baseline": "selected"}, "advantage.baseline", "means nothing to 'callable'"),
    ],
)
def test_refusals(settings: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        Advantage(**settings)
    assert refused.value.field == field
    assert words in str(refused.value)


@pytest.mark.parametrize("estimator", ["grpo", "step"])
def test_a_reward_that_nobody_has_is_a_slip_of_the_pen(estimator: str) -> None:
    with pytest.raises(InvalidRecord, match=r"no reward 'test'; there are: judge,.* tests"):
        assign(rollouts([chain(1.0, final=1.0)]), Advantage(estimator, {"test": 1.0}, absent=0.0))
