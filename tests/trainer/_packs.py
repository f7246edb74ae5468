"""The packs of an optimizer step as the reader makes them, from records instead of a warehouse."""

from __future__ import annotations

import numpy as np
from tests.trainer._workloads import Records

from stepwell.reader import PrefixOrder, TreeBatch, merge, pack_forest, prefix_order


def packed(records: Records, budget: int, ranks: int) -> list[list[TreeBatch]]:
    """By rank. Empty packs included: a rank that has nothing to compute still takes part."""
    sequences = records.sequences()
    order = prefix_order(sequences)
    packing = pack_forest(sequences.lengths[order.order], order.shared, budget=budget, ranks=ranks)
    ref = np.concatenate(records.ref)
    return [
        [
            merge(
                sequences,
                advantage=records.advantage,
                weight="token-mean" if records.weight is None else records.weight,
                ref_logprob=ref,
                prefixes=PrefixOrder(order.order[pack.places], pack.shared),
            )
            for pack in packs
        ]
        for packs in packing.ranks
    ]
