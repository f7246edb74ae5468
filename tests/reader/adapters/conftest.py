"""Optimizer steps by hand, with tokens that say whose they are, and a small warehouse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import BaseModel

from stepwell.reader import Sequences, TreeBatch, merge
from stepwell.reader._modes import Merge, arranged
from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse


@dataclass
class Made:
    """An optimizer step, as adapters see one."""

    packs: list[TreeBatch]
    steps: pa.Table
    sequences: Sequences
    advantage: np.ndarray
    weight: np.ndarray

    def __iter__(self) -> Iterator[TreeBatch]:
        return iter(self.packs)


Told = tuple[str, str | None, list[int], list[int], float]
"""Trajectory, group, prompt, response, advantage."""

STEPS: list[Told] = [
    ("long", "g", [1, 2], [11, 12], 0.5),
    ("long", "g", [1, 2, 11, 12, 3], [13], 0.5),
    ("long", "g", [1, 2, 11, 12, 3, 13, 4, 5], [14, 15, 16], 0.5),
    ("short", "g", [1, 2], [21], -0.5),
    ("other", "h", [6], [31, 32, 33, 34], 2.0),
]
"""A trajectory of three turns and one of one turn in a group, and another group."""


@pytest.fixture(scope="session")
def made() -> Callable[..., Made]:
    def build(
        told: list[Told] = STEPS,
        merge_by: Merge = "trajectory",
        *,
        weight: Any = None,
        packs: int = 1,
        bare: bool = False,
    ) -> Made:
        """`packs`: trajectories are dealt out to so many. `bare`: neither advantages nor logprobs."""
        logprobs = [[-0.1 * (token % 7 + 1) for token in response] for *_, response, _ in told]
        sequences = Sequences.from_lists(
            [prompt for _, _, prompt, _, _ in told],
            [response for *_, response, _ in told],
            None if bare else logprobs,
        )
        names = list(dict.fromkeys(name for name, *_ in told))
        numbers = np.array([names.index(name) for name, *_ in told])
        advantage = np.array([value for *_, value in told], np.float32)
        terms = np.array([len(response) for *_, response, _ in told])
        given = (
            np.full(len(told), 1 / max(terms.sum(), 1), np.float32) if weight is None else np.array(weight, np.float32)
        )
        made = []
        for pack in range(packs):
            rows = np.flatnonzero(numbers % packs == pack)
            some = sequences.select(rows)
            order = arranged(some, merge_by, numbers[rows])
            due = None if bare else advantage[rows]
            made.append(merge(some, advantage=due, weight=given[rows], prefixes=order))
        steps = pa.table(
            {
                "step_index": np.arange(len(told)),
                "step_id": [f"s{row}" for row in range(len(told))],
                "trajectory_id": [name for name, *_ in told],
                "group_id": pa.array([group for _, group, *_ in told], pa.string()),
            }
        )
        return Made(made, steps, sequences, advantage, given)

    return build


class Warehouses:
    """Records of one producer, and the warehouse they go to."""

    def __init__(self, folder: Path) -> None:
        (folder / "spool").mkdir()
        self.warehouse = Warehouse.open(folder / "warehouse")
        self._spool = Spool(folder / "spool" / "told.db")
        self._ingest = Ingest(self.warehouse, folder / "spool")
        self._count = 0

    def close(self) -> None:
        self._spool.close()

    def step(self, step_id: str, trajectory: str, prompt: list[int], ids: list[int], **more: Any) -> None:
        """With a logprob per token, sampled at temperature 1."""
        fields = {
            "step_id": step_id,
            "trajectory_id": trajectory,
            "prompt_ids": prompt,
            "response_ids": ids,
            "response": "said",
            "logprobs": [-0.5] * len(ids),
            "fingerprint": "m",
            "policy": "pi",
            "sampling": {"temperature": 1.0},
            **more,
        }
        self.tell("step", Step.model_validate(fields))

    def rollout(self, trajectory: str, group: str, turns: int, reward: float, **more: Any) -> None:
        """Turns that each go on where the one before ended; ended and rewarded."""
        self.tell("trajectory", Trajectory(trajectory_id=trajectory, group_id=group, prompt_id=f"p-{group}"))
        prompt, own = [1, 2, 3], 100 * (1 + sum(map(ord, trajectory)))
        for turn in range(turns):
            response = [own + 10 * turn, own + 10 * turn + 1]
            parent = f"{trajectory}.{turn - 1}" if turn else None
            self.step(f"{trajectory}.{turn}", trajectory, prompt, response, parent_id=parent, **more)
            prompt = [*prompt, *response, own + 10 * turn + 2]
        self.tell("feedback", Feedback(trajectory_id=trajectory, reward=reward))
        self.tell("trajectory", Trajectory(trajectory_id=trajectory, group_id=group, state="completed"))

    def tell(self, kind: str, record: BaseModel) -> None:
        self._count += 1
        body = record.model_dump_json(exclude_none=True).encode()
        self._spool.append([Entry(id=f"{kind}.{self._count}", kind=kind, body=body)])

    def commit(self) -> Warehouse:
        while self._ingest.run_once():
            pass
        return self.warehouse


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Warehouses]:
    """An empty one, for a test of its own."""
    made = Warehouses(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """Five groups of two trajectories of one to three turns. To read only."""
    made = Warehouses(tmp_path_factory.mktemp("plain"))
    for group in range(5):
        for member in range(2):
            made.rollout(
                f"{'abcde'[group]}{member}", f"g{group}", 1 + (group + member) % 3, member, policy_version=group
            )
    yield made.commit()
    made.close()
