"""The trees of an optimizer step as its packs hold them: what a rank computes, each token once per pack that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.gateway._problems import Problem
from stepwell.gateway._work_reader import reader_of
from stepwell.gateway._work_tree_drawn import Tree

if TYPE_CHECKING:
    from stepwell.reader import TreeBatch
    from stepwell.warehouse import Warehouse

__all__ = ["read_batch"]


def read_batch(warehouse: Warehouse, asked: Mapping[str, Any], settings: Mapping[str, Any]) -> Tree:
    """`asked`, `settings`: as `reader_of` takes them.

    Raises:
        InvalidRecord: a setting; nothing is left to train on; what a reader refuses.
        Problem: 404 for a dataset that is not there; 422 where there is no optimizer step, or one that is too large to be read here.
    """
    from stepwell.reader import PrefixNodes, Sequences

    meant = reader_of(warehouse, asked, settings)
    batches, missing = meant.first()
    if batches is None:
        raise Problem(422, missing or "")
    packs = [pack for pack in batches if pack.tokens_merged]
    rows = [(pack, row) for pack in packs for row in np.flatnonzero(pack.tree.lengths).tolist()]
    tokens = [pack.sequence(row) for pack, row in rows]
    lengths = np.array([len(one) for one in tokens], np.int64)
    sequences = Sequences(
        np.concatenate(tokens),
        np.concatenate(([0], np.cumsum(lengths))),
        lengths - np.array([_sampled(pack, row) for pack, row in rows], np.int64),
        np.arange(len(rows)),
    )
    index = np.array([pack.step_index[row] for pack, row in rows], np.int64)
    place = np.searchsorted(batches.steps["step_index"].to_numpy(), index)
    steps = batches.steps.select(["step_id", "trajectory_id"]).take(place)
    steps = steps.append_column("turn", warehouse.restored(steps, ["turn"]).read_all()["turn"])
    label = f"the first optimizer step of {meant.plan.selection}"
    return Tree(label, meant.plan.at, PrefixNodes.of(sequences, _trees(packs)), steps)


def _sampled(pack: TreeBatch, row: int) -> int:
    """Tokens of the step's response."""
    spans = pack.tree.span_length[pack.tree.span_offsets[row] : pack.tree.span_offsets[row + 1]]
    return int(spans.sum())


def _trees(packs: list[TreeBatch]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which tree of which pack each row with tokens is in: those of two share nothing, whatever they begin with."""
    before, found = 0, list[np.ndarray[Any, np.dtype[np.int64]]]()
    for pack in packs:
        last = pack.tree.last[pack.tree.lengths > 0]
        found.append(before + np.searchsorted(pack.tree_cu_seqlens, last, side="right"))
        before += len(pack.tree_cu_seqlens)
    return np.concatenate(found)
