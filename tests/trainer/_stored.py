"""Rollouts in a warehouse, told as a producer tells them: through a spool and ingest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.trainer._workloads import Turn

from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse


@dataclass(frozen=True)
class Rollout:
    name: str
    group: str
    reward: float
    turns: Sequence[Turn]
    logprobs: Sequence[Any]
    """f32 per turn, one per id of its response."""


def stored(rollouts: Sequence[Rollout], folder: Path) -> Warehouse:
    """A warehouse in which all of them have ended."""
    (folder / "spool").mkdir()
    spool = Spool(folder / "spool" / "rollouts.db")
    entries = [_entry(kind, record) for rollout in rollouts for kind, record in _told(rollout)]
    spool.append([Entry(id=f"{kind}.{at}", kind=kind, body=body) for at, (kind, body) in enumerate(entries)])
    spool.close()
    warehouse = Warehouse.open(folder / "warehouse")
    ingest = Ingest(warehouse, folder / "spool")
    while ingest.run_once():
        pass
    return warehouse


def _told(rollout: Rollout) -> list[tuple[str, BaseModel]]:
    about = {"trajectory_id": rollout.name, "group_id": rollout.group, "prompt_id": rollout.group}
    found: list[tuple[str, BaseModel]] = [("trajectory", Trajectory.model_validate(about))]
    for number, ((prompt, response), logprobs) in enumerate(zip(rollout.turns, rollout.logprobs, strict=True)):
        step = {
            "step_id": f"{rollout.name}.{number}",
            "trajectory_id": rollout.name,
            "response": "said",
            "parent_id": f"{rollout.name}.{number - 1}" if number else None,
            "prompt_ids": prompt,
            "response_ids": response,
            "logprobs": logprobs.tolist(),
            "policy": "tiny",
            "fingerprint": "tiny",
            "sampling": {"temperature": 1.0},
        }
        found.append(("step", Step.model_validate(step)))
    found.append(("feedback", Feedback(trajectory_id=rollout.name, reward=rollout.reward)))
    return [*found, ("trajectory", Trajectory.model_validate({**about, "state": "completed"}))]


def _entry(kind: str, record: BaseModel) -> tuple[str, bytes]:
    return kind, record.model_dump_json(exclude_none=True).encode()
