"""A workload in a warehouse on disk: through a spool and ingest, as trajectories that have ended and have a reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import batched, chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from benchmarks.read._workloads import Turn, Workload, turns_of

from stepwell.sdk.records import Feedback, Trajectory
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse

_TOGETHER = 64
"""Steps in one record."""


def stored(shape: Workload, folder: Path, at_once: int = 1) -> Warehouse:
    """The warehouse, maintained; `at_once`: so many groups in one spool."""
    warehouse = Warehouse.open(folder / "warehouse")
    worker = Ingest(warehouse, folder / "spool")
    for groups in batched(range(shape.groups), at_once):
        spool = Spool(folder / "spool" / f"{groups[0]}.db", max_bytes=1 << 40)
        for group in groups:
            spool.append(list(_entries(shape, group)))
        spool.close()
        while worker.run_once():
            pass
    warehouse.maintain()
    return Warehouse.open(folder / "warehouse", create=False)


def _entries(shape: Workload, group: int) -> Iterator[Entry]:
    chance = np.random.default_rng([shape.seed, group, 1])
    names = [f"g{group}.t{number}" for number in range(shape.trajectories)]
    for name in names:
        yield _trajectory(name, group, "open")
    for number, some in enumerate(batched(turns_of(shape, group), _TOGETHER)):
        yield Entry(f"steps.{group}.{number}", "steps", b'{"format":1}', _record(some))
    for name in names:
        reward = Feedback(feedback_id=f"reward.{name}", trajectory_id=name, reward=float(chance.integers(0, 2)))
        yield Entry(f"feedback.{name}", "feedback", body=reward.model_dump_json(exclude_none=True).encode())
        yield _trajectory(name, group, "completed")


def _trajectory(name: str, group: int, state: str) -> Entry:
    said = Trajectory.model_validate(
        {"trajectory_id": name, "group_id": f"g{group}", "prompt_id": f"p{group}", "state": state}
    )
    body = said.model_dump_json(exclude_none=True).encode()
    return Entry(f"trajectory.{name}.{state}", "trajectory", body=body)


def _record(turns: Sequence[Turn]) -> bytes:
    names = [f"g{turn.group}.t{turn.trajectory}" for turn in turns]
    steps = [f"{name}.{turn.number}" for name, turn in zip(names, turns, strict=True)]
    before = [f"{name}.{turn.number - 1}" if turn.number else None for name, turn in zip(names, turns, strict=True)]
    constant = {"finish_reason": "stop", "policy": "bench", "fingerprint": "bench", "sampling": '{"temperature":1.0}'}
    batch = pa.RecordBatch.from_pydict(
        {
            "step_id": steps,
            "trajectory_id": names,
            "parent_id": pa.array(before, pa.string()),
            "response": ['{"role":"assistant","content":"a"}'] * len(turns),
            "prompt_ids": _lists([turn.prompt for turn in turns], pa.int32()),
            "response_ids": _lists([turn.response for turn in turns], pa.int32()),
            "logprobs": _lists([turn.logprobs for turn in turns], pa.float32()),
            **{name: [value] * len(turns) for name, value in constant.items()},
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _lists(rows: Sequence[np.ndarray], kind: pa.DataType) -> pa.Array:
    offsets = np.fromiter(chain([0], np.cumsum([len(row) for row in rows])), np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(rows), kind))
