"""`TreeBatches`: one optimizer step as packs by rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader._batch import TreeBatch
from stepwell.reader._credit import Credit
from stepwell.reader._merge import merge
from stepwell.reader._pack.packing import pack_forest
from stepwell.reader._plan.report import StepReport
from stepwell.reader._prefix import PrefixOrder
from stepwell.reader._sequences import Sequences


@dataclass(frozen=True, eq=False)
class TreeBatches:
    """One optimizer step: a `TreeBatch` per pack. The loss of the step is the sum over all packs of all ranks.

    Every rank has equally many packs, so that ranks stay in step; some may be empty. A pack's `step_index` are rows of the
    reader's selection, and `steps` says which those are.
    """

    epoch: int
    number: int
    """Of the optimizer step in its epoch, from 0."""
    packs: tuple[tuple[TreeBatch, ...], ...]
    """`packs[rank]`: what that rank computes, one after the other."""
    steps: pa.Table
    """The steps that train: step_index, step_id, trajectory_id, group_id; ascending by step_index."""
    report: StepReport
    skipped: dict[str, int]
    """Steps of these groups that were left out after they had been planned, by reason."""
    level_groups: int
    """Prompt groups all of whose advantages are 0: they weigh, and teach nothing."""
    apart: dict[str, int]
    """Steps that begin with more ids of another than they were merged with, by reason: images differ, or may (docs/reader.md)."""

    def __iter__(self) -> Iterator[TreeBatch]:
        """All packs, rank by rank."""
        for packs in self.packs:
            yield from packs

    @property
    def occurrences(self) -> int:
        """Loss terms of all packs."""
        return sum(pack.occurrences for pack in self)


def packed(
    sequences: Sequences,
    order: PrefixOrder,
    credit: tuple[np.ndarray | None, np.ndarray],
    *,
    budget: int,
    ranks: int,
    groups: int,
) -> tuple[tuple[tuple[TreeBatch, ...], ...], StepReport]:
    """Packs by rank, and how they came out.

    Args:
        order: all rows, as a way to merge arranges them.
        credit: f32 [N] advantages or None, and f32 [N] weights.

    Raises:
        InvalidRecord: a pack or their sum breaks conservation.
    """
    advantage, weight = credit
    packing = pack_forest(sequences.lengths[order.order], order.shared, budget=budget, ranks=ranks)
    made = tuple(
        tuple(
            merge(
                sequences,
                advantage=advantage,
                weight=weight,
                prefixes=PrefixOrder(order.order[pack.places], pack.shared),
            )
            for pack in packs
        )
        for packs in packing.ranks
    )
    check_conserved(sequences, made)
    naive = int(sequences.offsets[-1])
    terms = sequences.trained_total
    return made, StepReport.of(packing, groups=groups, steps=len(sequences), terms=terms, naive=naive)


def check_conserved(sequences: Sequences, packs: tuple[tuple[TreeBatch, ...], ...]) -> None:
    """Sampled trainable tokens = occurrences = terms that a trainer can compute, over all packs; and each step is in one of them.

    Each pack has been checked against its own steps, token by token, when it was merged.
    """
    sampled = sequences.trained_total
    every = [pack for some in packs for pack in some]
    found = sum(pack.occurrences for pack in every)
    valid = sum(map(_valid, every))
    if not sampled == found == valid:
        raise InvalidRecord(
            "occurrence_target", f"{sampled} sampled tokens became {found} loss terms, {valid} of them valid"
        )
    steps = np.sort(np.concatenate([pack.step_index for pack in every]))
    if not np.array_equal(steps, np.sort(sequences.step_index)):
        raise InvalidRecord("step_index", "the packs do not hold each step once")


def _valid(pack: TreeBatch) -> int:
    """Loss terms whose label has a hidden state before it to be predicted from."""
    predicted = pack.target_source >= 0
    return pack.occurrences if predicted.all() else int(np.count_nonzero(predicted[pack.occurrence_target]))


def trained_rows(credit: Credit) -> np.ndarray:
    """Places of the steps with loss terms, among those that credit was assigned to."""
    return np.flatnonzero(credit.trained)
