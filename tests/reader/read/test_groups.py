"""What is read of the groups and trajectories that a selection takes only some steps of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.reader.read.test_reader import advantages

from stepwell.reader import Advantage, BatchReader
from stepwell.reader._select import facts
from stepwell.warehouse import Warehouse

HALVED = Advantage("reinforce", discount=0.5)


@pytest.fixture
def alone(told: Any) -> Warehouse:
    """Three turns of a trajectory without a group, and its reward."""
    told.trajectory("t")
    prompt = [1, 2]
    for turn in range(3):
        told.step("t", turn, prompt, [10 + turn])
        prompt = [*prompt, 10 + turn]
    told.reward("t", 1.0)
    told.trajectory("t", state="completed")
    warehouse: Warehouse = told.commit()
    return warehouse


def test_returns_see_the_whole_trajectory_also_where_it_has_no_group(alone: Warehouse) -> None:
    (batch,) = BatchReader(alone, where="turn = 0", advantage=HALVED)
    assert advantages(batch) == {"t.0": pytest.approx(0.25)}


def test_a_parent_that_was_not_selected_is_not_lost(alone: Warehouse) -> None:
    reader = BatchReader(alone, where="turn > 0", advantage=HALVED)
    (batch,) = reader
    assert advantages(batch) == {"t.1": pytest.approx(0.5), "t.2": pytest.approx(1.0)}
    plan = reader.plan()
    assert (plan.selected, plan.left_out, plan.skipped) == (2, {}, {})
    assert plan.tokens_merged == 5, "t.1 is the beginning of t.2"


def test_an_eval_trajectory_moves_no_baseline(told: Any) -> None:
    told.rollout("t1", "g", 1, 1.0)
    told.rollout("t2", "g", 1, 0.0)
    told.trajectory("t3", "g", split="eval")
    told.step("t3", 0, [1, 2], [3], split="eval")
    told.reward("t3", 100.0)
    told.trajectory("t3", "g", split="eval", state="completed")
    (batch,) = BatchReader(told.commit(), where="true")
    found = advantages(batch)
    assert found == {"t1.0": pytest.approx(2**-0.5, abs=1e-4), "t2.0": pytest.approx(-(2**-0.5), abs=1e-4)}


def test_a_sub_agent_of_another_trajectory_is_a_root_of_its_own(told: Any) -> None:
    """It says which step called it. That is no step it gets credit through, and none that is missing."""
    told.rollout("t1", "g", 2, 1.0)
    told.trajectory("t2", "g")
    told.step("t2", 0, [7, 8], [9], parent_id="t1.0")
    told.reward("t2", 0.0)
    told.trajectory("t2", "g", state="completed")
    reader = BatchReader(told.commit(), where="true", advantage=HALVED)
    (batch,) = reader
    assert advantages(batch) == {"t1.0": pytest.approx(0.5), "t1.1": pytest.approx(1.0), "t2.0": 0.0}
    assert reader.plan().skipped == {}


def test_of_trajectories_of_which_nothing_was_selected_the_reward_counts(told: Any) -> None:
    """And of one that failed, too: it ended. One that is still open does not."""
    for name, reward in (("t1", 1.0), ("t2", 0.0), ("t3", 0.0)):
        told.rollout(name, "g", 1, reward)
    told.trajectory("t4", "g")
    told.step("t4", 0, [1, 2], [3])
    told.reward("t4", -2.0)
    told.trajectory("t4", "g", state="failed")
    told.trajectory("t5", "g")
    told.reward("t5", 50.0)
    (batch,) = BatchReader(told.commit(), where="trajectory_id = 't1'")
    rewards = [1.0, 0.0, 0.0, -2.0]
    wanted = (1.0 - np.mean(rewards)) / np.std(rewards, ddof=1)
    assert advantages(batch) == {"t1.0": pytest.approx(wanted, rel=1e-5)}


def test_many_trajectories_are_asked_for_by_the_condition(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a group of which nothing is selected are in its baseline, whichever way they are found; and a name may have a quote."""
    for name, reward in (("t'1", 1.0), ("t2", 0.0), ("t3", 0.5)):
        told.rollout(name, "g'", 2, reward)
    told.rollout("other", "h", 1, 1.0)
    warehouse = told.commit()
    found = []
    for most in (facts._NAMED, 0):
        monkeypatch.setattr(facts, "_NAMED", most)
        (batch,) = BatchReader(
            warehouse, where="trajectory_id = 't''1' AND turn = 0", advantage=Advantage("grpo", std=False)
        )
        found.append(advantages(batch))
    assert found == [{"t'1.0": pytest.approx(0.5)}] * 2
