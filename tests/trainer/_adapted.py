"""An optimizer step for adapters, made of the stored rollouts; and a reader that a data loader's worker can make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tests.trainer._stored import Rollout, stored

from stepwell.reader import BatchReader, TreeBatches
from stepwell.warehouse import Warehouse

VOCABULARY = 24


def rollouts() -> list[Rollout]:
    """Three prompt groups of rollouts of one to three turns, with logprobs that are not those of the model that trains."""
    random = np.random.default_rng(5)
    found = []
    for group in range(3):
        opening = random.integers(1, VOCABULARY, 3).tolist()
        for member in range(2 + group % 2):
            prompt, turns, logprobs = opening, [], []
            for _ in range(1 + (group + 2 * member) % 3):
                response = random.integers(1, VOCABULARY, int(random.integers(1, 5))).tolist()
                turns.append((prompt, response))
                logprobs.append(random.normal(-3, 0.3, len(response)).astype(np.float32))
                prompt = [*prompt, *response, int(random.integers(1, VOCABULARY))]
            found.append(Rollout(f"r{group}.{member}", f"g{group}", float(random.normal()), turns, logprobs))
    return found


def kept(folder: Path) -> str:
    """Where the warehouse is."""
    return stored(rollouts(), folder).uri


def opened(uri: str, **settings: Any) -> BatchReader:
    given: dict[str, Any] = {"merge": "trajectory", "old_logprobs": True, "seed": 1, **settings}
    return BatchReader(Warehouse.open(uri), where="true", **given)


def optimizer_step(uri: str, **settings: Any) -> TreeBatches:
    """All groups in one."""
    (batches,) = opened(uri, **settings)
    return batches


def number_of(batches: TreeBatches) -> tuple[int, int, str]:
    """What a data loader's test looks at."""
    return batches.epoch, batches.number, str(batches.steps["group_id"][0].as_py())
