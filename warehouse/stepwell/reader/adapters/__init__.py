"""What trainers take: one function per trainer, from an optimizer step to its fields, dtypes and padding sides.

    reader = BatchReader(warehouse, dataset="math", merge="trajectory", old_logprobs=True)
    for batch in reader:
        fields = to_verl(batch, pad=tokenizer.pad_token_id)

Trainers without tree attention take sequences: read with `merge="trajectory"` (steps that go on exactly where the one before ended are
one sequence, with a mask over what was sampled) or `"none"`. `rows_of` makes `Rows` of an optimizer step once, for several adapters or
with more `details` of steps. Every adapter hands over our advantages and weights, and says how to keep the trainer from estimating its
own: those compare rows, and count a trajectory as often as it has some.

Everything is numpy and plain Python; a trainer's package is imported only where one of its types is asked for. `OptimizerSteps`, a PyTorch
`IterableDataset`, is imported when it is first looked at. Each adapter checks in code that what its trainer will train on are the
tokens that were sampled, all of them and no others. docs/adapters.md says which were compared with the trainer's own code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwell.reader.adapters._areal import to_areal
from stepwell.reader.adapters._details import step_details
from stepwell.reader.adapters._lines import rows_of, rows_of_sequences
from stepwell.reader.adapters._prime_rl import to_prime_rl
from stepwell.reader.adapters._rows import Mean, Rows
from stepwell.reader.adapters._skyrl import SkyRLTrajectory, to_skyrl
from stepwell.reader.adapters._slime import to_slime
from stepwell.reader.adapters._tinker import tinker_datums, to_tinker
from stepwell.reader.adapters._told import ToldRows, dpo_rows, sft_rows
from stepwell.reader.adapters._trl import to_trl_async, to_trl_grpo, to_trl_rollout, to_trl_sft
from stepwell.reader.adapters._verl import VerlBatch, to_verl

if TYPE_CHECKING:
    from stepwell.reader.adapters._steps_dataset import OptimizerSteps

__all__ = [
    "Mean",
    "OptimizerSteps",
    "Rows",
    "SkyRLTrajectory",
    "ToldRows",
    "VerlBatch",
    "dpo_rows",
    "rows_of",
    "rows_of_sequences",
    "sft_rows",
    "step_details",
    "tinker_datums",
    "to_areal",
    "to_prime_rl",
    "to_skyrl",
    "to_slime",
    "to_tinker",
    "to_trl_async",
    "to_trl_grpo",
    "to_trl_rollout",
    "to_trl_sft",
    "to_verl",
]


def __getattr__(name: str) -> Any:
    if name == "OptimizerSteps":
        from stepwell.reader.adapters._steps_dataset import OptimizerSteps

        return OptimizerSteps
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
