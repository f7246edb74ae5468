"""Very many small steps, as a training run leaves them: groups of eight trajectories of twenty turns, agents, models, policy versions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import batched
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

TURNS, GROUP = 20, 8
OPENING, BETWEEN, ANSWER = 40, 20, 20
_AT_ONCE = 50
"""Trajectories in a request."""
_WORDS = np.array(["alpha", "beta", "gamma", "delta", "error", "file", "python", "test", "fix", "query", "agent"])


def crowd(steps: int) -> Iterator[tuple[str, Any]]:
    """Paths and bodies of requests; the last step was finished about now."""
    begun = datetime.now(UTC) - timedelta(seconds=steps / 50)
    trajectories = max(1, steps // TURNS)
    for some in batched(range(trajectories), _AT_ONCE):
        yield "/steps", _steps(some, trajectories, begun)
        yield "/trajectories", [{"trajectory_id": f"run-{one}", "state": "completed"} for one in some if one % 25]
        rewarded = [one for one in some if one % 13]
        yield (
            "/feedback",
            [
                {"feedback_id": f"reward-{one}", "trajectory_id": f"run-{one}", "reward": float(one % 7 == 0)}
                for one in rewarded
            ],
        )


def _steps(some: tuple[int, ...], trajectories: int, begun: datetime) -> bytes:
    rows = [_step(one, turn, trajectories, begun) for one in some for turn in range(TURNS)]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    for name, kind in (("prompt_ids", pa.int32()), ("response_ids", pa.int32()), ("logprobs", pa.float32())):
        columns[name] = pa.array(columns[name], pa.list_(kind))
    for name in ("started_at", "finished_at"):
        columns[name] = pa.array(columns[name], pa.timestamp("us", "UTC"))
    batch, sink = pa.RecordBatch.from_pydict(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def _step(one: int, turn: int, trajectories: int, begun: datetime) -> dict[str, Any]:
    chance = np.random.default_rng([20261130, one])
    ids = chance.integers(0, 150_000, OPENING + turn * (BETWEEN + ANSWER) + ANSWER)
    words = chance.choice(_WORDS, 12 * (turn + 2))
    said = [" ".join(words[12 * number : 12 * number + 12]) for number in range(turn + 2)]
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": text} for place, text in enumerate(said[: 2 * (turn // 2) + 1])]
    number = one * TURNS + turn
    finished = begun + timedelta(seconds=number / 50)
    return {
        "step_id": f"run-{one}.{turn}",
        "trajectory_id": f"run-{one}",
        "group_id": f"group-{one // GROUP}",
        "prompt_id": f"task-{one // GROUP % 500}",
        "split": "train" if one // GROUP % 10 else "eval",
        "messages": orjson.dumps(messages).decode(),
        "response": orjson.dumps({"role": "assistant", "content": said[-1]}).decode(),
        "prompt_ids": ids[:-ANSWER],
        "response_ids": ids[-ANSWER:],
        "logprobs": np.log(chance.random(ANSWER, np.float32) + np.float32(1e-6)),
        "status": "error" if number % 40 == 0 else "truncated" if number % 31 == 0 else "ok",
        "policy": "rl",
        "policy_version": one * 100 // trajectories,
        "model": f"model-{one % 4}",
        "metadata": orjson.dumps({"agent": f"agent-{one % 5}"}).decode(),
        "started_at": finished - timedelta(seconds=2),
        "finished_at": finished,
    }
