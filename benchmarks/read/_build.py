"""How fast sequences become batches, and what that takes beside them.

What is counted: sorting all rows, finding what they share, and merging every pack of 65,536 tokens with all its checks. Which rows go into
which pack is worked out in between and told apart (`planned_mtok_s_…` has it in).
"""

from __future__ import annotations

import ctypes
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from benchmarks.read._workloads import A, B, sequences_of

from stepwell.reader import PrefixOrder, Sequences, TreeBatch, merge, prefix_order
from stepwell.reader._pack.packing import pack_forest

_Made = TypeVar("_Made")

_BUDGET = 65_536
_RANKS = 8
_TIMES = 7
"""Each is measured so many times, and the best counts: others only disturb."""


def build() -> dict[str, Any]:
    """Millions of input tokens per second of processor time, of workloads A and B; and the most memory in use, over that of the tokens."""
    figures: dict[str, Any] = {}
    details: dict[str, Any] = {}
    extra = 0.0
    for name, shape in (("a", A), ("b", B)):
        sequences = sequences_of(shape)
        best = _best(sequences)
        figures[f"build_mtok_s_{name}"] = best["build"]
        extra = max(extra, _extra(sequences))
        details |= {
            f"planned_mtok_s_{name}": best["planned"],
            f"memcmp_mtok_s_{name}": best["memcmp"],
            f"build_over_memcmp_{name}": best["build"] / best["memcmp"],
            f"memcmp_flat_mtok_s_{name}": best["flat"],
            f"tokens_{name}": len(sequences.tokens),
            f"steps_{name}": len(sequences),
        }
    return {**figures, "peak_extra_ratio": extra, "details": details}


def _best(sequences: Sequences) -> dict[str, float]:
    """Of each, millions of tokens per second; taken in turns, so that a busy moment strikes all alike."""
    credit = np.zeros(len(sequences), np.float32)
    compared = _comparisons(sequences)
    least: dict[str, float] = {}
    for _ in range(_TIMES):
        order, sorting = _timed(partial(prefix_order, sequences))
        packs, packing = _timed(partial(_packs, sequences, order))
        _, merging = _timed(partial(_merged, sequences, packs, credit))
        took = {"build": sorting + merging, "planned": sorting + packing + merging}
        took |= {name: _timed(compare)[1] for name, compare in compared.items()}
        least = {name: min(seconds, least.get(name, seconds)) for name, seconds in took.items()}
    return {name: len(sequences.tokens) / seconds / 1e6 for name, seconds in least.items()}


def _packs(sequences: Sequences, order: PrefixOrder) -> list[PrefixOrder]:
    packing = pack_forest(sequences.lengths[order.order], order.shared, budget=_BUDGET, ranks=_RANKS)
    return [PrefixOrder(order.order[pack.places], pack.shared) for some in packing.ranks for pack in some]


def _merged(sequences: Sequences, packs: list[PrefixOrder], credit: np.ndarray) -> list[TreeBatch]:
    return [merge(sequences, advantage=credit, prefixes=pack) for pack in packs]


def _comparisons(sequences: Sequences) -> dict[str, Callable[[], object]]:
    """memcmp of every token with an equal one: row by row in prefix order, as merging has to look at them, and all in one go."""
    compare = ctypes.CDLL(None).memcmp
    compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    same = sequences.tokens.copy()
    one, other = sequences.tokens.ctypes.data, same.ctypes.data
    order = prefix_order(sequences).order
    places = (4 * sequences.offsets[order]).tolist()
    sizes = (4 * sequences.lengths[order]).tolist()

    def rows() -> int:
        unequal = 0
        for place, size in zip(places, sizes, strict=True):
            unequal |= compare(one + place, other + place, size)
        return unequal

    return {"memcmp": rows, "flat": lambda: (compare(one, other, same.nbytes), same)}


def _extra(sequences: Sequences) -> float:
    """Bytes in use at most while everything is built and kept, over the bytes of the tokens: those of numpy, and those of Arrow."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        packs = _packs(sequences, prefix_order(sequences))
        made = _merged(sequences, packs, np.zeros(len(sequences), np.float32))
        peak = tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert sum(batch.occurrences for batch in made) == sequences.trained_total
    return peak / sequences.tokens.nbytes


def _timed(work: Callable[[], _Made]) -> tuple[_Made, float]:
    """What it gives, and the seconds of processor time it takes."""
    begun = time.process_time()
    made = work()
    return made, time.process_time() - begun
