"""A small warehouse with everything that a reader meets: groups, branches, drift, side calls, eval steps, and what lacks something."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse

TASK = [1, 2, 3, 4, 5]


class Told:
    """Records of one producer, and the warehouse they go to."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = Warehouse.open(folder / "warehouse")
        self._spool = Spool(folder / "spool" / "told.db")
        self._ingest = Ingest(self.warehouse, folder / "spool")
        self._count = 0

    def close(self) -> None:
        self._spool.close()

    def trajectory(self, name: str, group: str | None = None, **more: Any) -> None:
        fields = {"prompt_id": None if group is None else f"p-{group}", **more}
        self._tell("trajectory", Trajectory(trajectory_id=name, group_id=group, **fields))

    def step(self, trajectory: str, turn: int, prompt: list[int], response: list[int], **more: Any) -> str:
        """Its id, `<trajectory>.<turn>`; it continues the turn before."""
        fields: dict[str, Any] = {
            "step_id": f"{trajectory}.{turn}",
            "parent_id": f"{trajectory}.{turn - 1}" if turn else None,
            "response": "said",
            "logprobs": [-0.25 * (place + 1) for place in range(len(response))],
            "fingerprint": "m",
            "policy": "pi",
            "sampling": {"temperature": 1.0},
        }
        given = Step.model_validate(
            {**fields, "trajectory_id": trajectory, "prompt_ids": prompt, "response_ids": response, **more}
        )
        self._tell("step", given)
        return given.step_id

    def reward(self, trajectory: str, reward: float, **more: Any) -> None:
        self._tell("feedback", Feedback(trajectory_id=trajectory, reward=reward, **more))

    def rollout(self, trajectory: str, group: str, turns: int, reward: float, **more: Any) -> None:
        """Turns that each go on where the one before ended; ended and rewarded. Its ids are its own but for the task."""
        self.trajectory(trajectory, group)
        prompt, own = TASK, 100 * (1 + sum(map(ord, trajectory)))
        for turn in range(turns):
            response = [own + 10 * turn, own + 10 * turn + 1]
            self.step(trajectory, turn, prompt, response, **more)
            prompt = [*prompt, *response, own + 10 * turn + 2]
        self.reward(trajectory, reward)
        self.trajectory(trajectory, group, state="completed")

    def commit(self) -> Warehouse:
        while self._ingest.run_once():
            pass
        return self.warehouse

    def _tell(self, kind: str, record: BaseModel) -> None:
        self._count += 1
        body = record.model_dump_json(exclude_none=True).encode()
        self._spool.append([Entry(id=f"{kind}.{self._count}", kind=kind, body=body)])


@pytest.fixture(scope="session")
def _template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty warehouse, made once: copying it is ten times faster than making another."""
    root = tmp_path_factory.mktemp("template") / "warehouse"
    Warehouse.open(root)
    return root


@pytest.fixture
def told(_template: Path, tmp_path: Path) -> Iterator[Told]:
    """An empty one, for a test of its own."""
    (tmp_path / "spool").mkdir()
    shutil.copytree(_template, tmp_path / "warehouse")
    made = Told(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """Six groups of trajectories of one to four turns, nothing wrong with them. To read only."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "spool").mkdir()
    made = Told(folder)
    for group in range(6):
        for member in range(3):
            made.rollout(f"{'abcdef'[group]}{member}", f"g{group}", turns=1 + (group + member) % 4, reward=member % 2)
    yield made.commit()
    made.close()


@pytest.fixture(scope="session")
def names_of() -> Callable[..., list[str]]:
    """The steps of some batches, sorted."""

    def names(*batches: Any) -> list[str]:
        return sorted(name for batch in batches for name in batch.steps["step_id"].to_pylist())

    return names
