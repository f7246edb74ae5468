"""What trainers want to know of a step beside its tokens: its turn, its policy's version, its reward, how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.reader.adapters._lines import OptimizerStep

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

_COLUMNS = (
    "step_id",
    "turn",
    "prompt_id",
    "policy_version",
    "status",
    "finish_reason",
    "trajectory_reward",
    "sampling",
)


def step_details(warehouse: Warehouse, batch: OptimizerStep, at: str | int | None = None) -> pa.Table:
    """Per step of the batch: step_id, turn, prompt_id, policy_version, status, finish_reason, trajectory_reward, temperature.

    `at`: the version of the warehouse to resolve rewards at, which is `reader.plan().at` for what the reader saw. A temperature that was
    not asked for is null.

    Raises:
        StoreError: a step is gone.
    """
    names = batch.steps["step_id"].to_pylist()
    found = warehouse.whole(names, _COLUMNS, at=at)
    if found.num_rows != len(names):
        raise StoreError(f"{len(names) - found.num_rows} of {len(names)} steps are not in the warehouse any more")
    temperature = pa.array([_temperature(text) for text in found["sampling"].to_pylist()], pa.float64())
    return found.drop_columns(["sampling"]).append_column("temperature", temperature)


def _temperature(sampling: str | None) -> float | None:
    asked: Any = orjson.loads(sampling) if sampling else None
    value = asked.get("temperature") if isinstance(asked, dict) else None
    return float(value) if isinstance(value, int | float) else None
