"""How many tokens are computed again because a forest does not fit one pack, and how evenly ranks are loaded."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.read._workloads import PACKED, sequences_of

from stepwell.reader import pack_forest, prefix_order

_BUDGETS = {"inflation_16k": 16_384, "inflation_65k": 65_536}
_RANKS = (8, 64)


def packing() -> dict[str, Any]:
    """Computed over unique tokens of 32 x 8 x 20 on one rank; on several also the slowest rank's over the bound."""
    sequences = sequences_of(PACKED)
    order = prefix_order(sequences)
    lengths = sequences.lengths[order.order]
    figures: dict[str, Any] = {}
    details: dict[str, Any] = {"pack_steps": len(sequences), "pack_longest": int(lengths.max())}
    for name, budget in _BUDGETS.items():
        begun = time.process_time()
        packed = pack_forest(lengths, order.shared, budget=budget)
        details[f"{name}_pack_s"] = time.process_time() - begun
        figures[name] = packed.tokens / packed.unique
        for ranks in _RANKS:
            spread = pack_forest(lengths, order.shared, budget=budget, ranks=ranks)
            details[f"{name}_makespan_{ranks}"] = spread.makespan / spread.bound
    return {**figures, "details": details}
