"""MagiAttention's flexible slices: rectangles of the mask, each seen in full or causally."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwell.reader._arrays import I32
from stepwell.reader._batch import TreeBatch
from stepwell.reader._kernels.runs import ancestor_runs

FULL, CAUSAL = 0, 1
"""MagiAttention's numbers for the kinds of slices."""


@dataclass(frozen=True, eq=False)
class MagiSlices:
    """n slices that do not overlap: for each chain one causal square, then one full rectangle per ancestor run.

    `flex_flash_attn_func(q, k, v, q_ranges=…, k_ranges=…, attn_type_map=…)` takes them as tensors.
    """

    q_ranges: I32
    """[n, 2] Query rows of each slice, end exclusive."""
    k_ranges: I32
    """[n, 2] Key columns, likewise."""
    attn_type_map: I32
    """[n] 0 for full, 1 for causal; a causal slice is square here, so its alignment does not matter."""


def magi_slices(batch: TreeBatch) -> MagiSlices:
    """The slices of a batch: C chains and the runs above them. Causal ones first, each kind in packed order."""
    runs = ancestor_runs(batch.tree)
    chains = np.stack([runs.chain_start, runs.chain_stop], axis=1).astype(np.int32)
    above = np.stack([runs.start, runs.stop], axis=1).astype(np.int32)
    kinds = np.repeat(np.array([CAUSAL, FULL], np.int32), [len(chains), len(above)])
    return MagiSlices(np.concatenate([chains, chains[runs.owner]]), np.concatenate([chains, above]), kinds)
