"""A dataset with every kind of row: turns that go on, a branch, several groups, and a step that trains on nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.reader.read.conftest import TASK, Told

from stepwell.warehouse import Warehouse


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """Dataset `d`, version 1: three groups of two trajectories of one to three turns, and one that branches; 15 steps, 14 of them train."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "spool").mkdir()
    told = Told(folder)
    for group in range(3):
        for member in range(2):
            told.rollout(f"{'abc'[group]}{member}", f"g{group}", turns=1 + (group + member) % 3, reward=member - 0.25)
    told.trajectory("branched", "g0", prompt_id="p-g0")
    told.step("branched", 0, TASK, [70, 71])
    told.step("branched", 1, [*TASK, 70, 71, 80], [81])
    told.step("branched", 2, [*TASK, 70, 71, 80], [82, 83], parent_id="branched.0")
    told.step("branched", 3, [*TASK, 70, 71, 90], [], parent_id="branched.0", logprobs=None)
    told.reward("branched", 2.0)
    told.trajectory("branched", "g0", prompt_id="p-g0", state="completed")
    warehouse = told.commit()
    warehouse.datasets.create("d", "true", note="all of it")
    yield warehouse
    told.close()
