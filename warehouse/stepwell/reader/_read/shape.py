"""How an optimizer step is merged and packed: by lengths and lineage for a plan, by its tokens for batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepwell.reader._arrays import F32, I32, I64
from stepwell.reader._batch import TreeBatch
from stepwell.reader._media import Media, keyed
from stepwell.reader._modes import Merge, arranged
from stepwell.reader._pack.packing import pack_forest
from stepwell.reader._plan.estimate import forest_of
from stepwell.reader._plan.report import StepReport
from stepwell.reader._read.batches import packed
from stepwell.reader._select.steps import Steps
from stepwell.reader._sequences import Sequences

Packs = tuple[tuple[TreeBatch, ...], ...]


@dataclass(frozen=True, slots=True)
class Shape:
    merge: Merge
    budget: int
    """Most tokens of a pack."""
    ranks: int

    def planned(self, steps: Steps, shared: I64, rows: I64, kept: I32, *, groups: int) -> StepReport:
        """What these rows, i64 ascending, will be; `shared` and `kept` as for `forest_of`."""
        forest = forest_of(steps, shared, rows, kept, self.merge)
        packing = pack_forest(forest.lengths, forest.shared, budget=self.budget, ranks=self.ranks)
        terms, naive = int(kept[rows].sum()), int(forest.lengths.sum())
        return StepReport.of(packing, groups=groups, steps=len(rows), terms=terms, naive=naive)

    def packed(
        self,
        sequences: Sequences,
        media: Media | None,
        trajectories: I32,
        credit: tuple[F32 | None, F32],
        *,
        groups: int,
    ) -> tuple[Packs, StepReport, dict[str, int]]:
        """Packs by rank, how they came out, and which steps were kept apart because of what they show (see `keyed`).

        Args:
            trajectories: i32 [N], whose each row is.
            credit: f32 [N] advantages or None, and f32 [N] weights.

        Raises:
            InvalidRecord: a pack or their sum breaks conservation.
        """
        compared, apart = keyed(sequences, media)
        order = arranged(compared, self.merge, trajectories.astype(np.int64))
        packs, report = packed(sequences, order, credit, budget=self.budget, ranks=self.ranks, groups=groups)
        return packs, report, apart
