"""What of one sequence stands in another: runs to copy, and the little between them.

The beginning is compared first. Behind the first difference, windows of `RUN` ids are looked up among the base's blocks of as many, only
where nothing was found yet, and what is found is extended both ways. Time and memory are linear in the two lengths, and nothing is done
per id in Python, so a drifted turn of 200k ids costs milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]

Run = tuple[int, int, int]
"""Where in the sequence, where in the base, how many."""

Ops = tuple[int, ...]
"""`(from, copied, own)` again and again: so many of the base, then so many own ones. Empty: nothing is copied."""

RUN = 16
"""Shorter runs are not copied: three numbers and a jump would be no gain. A run of 2 × RUN - 1 is never missed."""

MAX_RUNS = 1024
"""Beyond so many runs the rest is own."""

_FACTORS = tuple(np.uint64(pow(0x9E3779B97F4A7C15, width, 2**64)) for width in (1, 2, 4, 8))
"""Powers of one odd number: windows and blocks get the same polynomial, modulo 2^64."""


def common_prefix(left: Ids, right: Ids) -> int:
    """How many leading ids are equal. Compared in growing pieces, so an early difference costs little.

    Of a conversation's steps the ids mostly lie in one buffer (see `_parse/joined`): what is the same memory is not read.
    """
    end = min(len(left), len(right))
    if left.base is not None and left.base is right.base and _place(left) == _place(right):
        return end
    start, size = 0, 256
    while start < end:
        stop = min(start + size, end)
        different = left[start:stop] != right[start:stop]
        if (place := int(different.argmax())) or different[0]:
            return start + place
        start, size = stop, size * 4
    return end


def _place(ids: Ids) -> tuple[int, tuple[int, ...]]:
    return ids.__array_interface__["data"][0], ids.strides


def aligned(sequence: Ids, base: Ids, shared: int) -> list[Run]:
    """The runs of `sequence` that stand in `base`, in order. Their first `shared` ids are known to be equal."""
    runs: list[Run] = [(0, 0, shared)] if shared >= RUN else []
    at = behind = shared if runs else 0
    index = _Blocks(base)
    seen = at  # everything before was looked up
    for _ in range(2 * MAX_RUNS):  # a hash that lies costs a round, not an endless walk
        found = index.next(sequence, seen, behind)
        if found is None or len(runs) == MAX_RUNS:
            break
        place, source = found
        back = common_prefix(sequence[at:place][::-1], base[:source][::-1])
        length = back + common_prefix(sequence[place:], base[source:])
        seen = place + 1
        if length >= RUN:
            runs.append((place - back, source - back, length))
            seen = at = place - back + length
            behind = source - back + length
    return runs


def ops_of(runs: Sequence[Run], length: int) -> Ops:
    """The runs of a sequence of `length` as they are stored."""
    if not runs:
        return ()
    if len(runs) == 1 and runs[0][0] == 0:  # as nearly always: it goes on from the base
        return (runs[0][1], runs[0][2], length - runs[0][2])
    ops = [0, 0, runs[0][0]] if runs[0][0] else []
    ends = [at for at, _, _ in runs[1:]] + [length]
    for (at, source, count), end in zip(runs, ends, strict=True):
        ops += (source, count, end - at - count)
    return tuple(ops)


def own_of(sequence: Ids, ops: Ops) -> Ids:
    """What of the sequence is not copied."""
    if not ops:
        return sequence
    if len(ops) == 3:
        return sequence[ops[1] :]
    pieces, at = [], 0
    for copied, own in zip(ops[1::3], ops[2::3], strict=True):
        at += copied + own
        pieces.append(sequence[at - own : at])
    return np.concatenate(pieces)


class _Blocks:
    """The base's blocks of `RUN` ids side by side, found by their hash."""

    def __init__(self, base: Ids) -> None:
        hashes = base[: len(base) // RUN * RUN].astype(np.uint64).reshape(-1, RUN)
        for factor in _FACTORS:
            hashes = hashes[:, 0::2] * factor + hashes[:, 1::2]
        flat = hashes.ravel()
        self._order = np.argsort(flat, kind="stable")
        self._sorted = flat[self._order]

    def next(self, sequence: Ids, start: int, behind: int) -> tuple[int, int] | None:
        """The first window from `start` on that is a block, and where that block is: from `behind` on if there is one, else anywhere."""
        size = 4 * RUN
        while len(self._sorted) and len(sequence) - start >= RUN:
            windows = _windows(sequence[start : start + size])
            places = np.minimum(np.searchsorted(self._sorted, windows), len(self._sorted) - 1)
            hit = self._sorted[places] == windows
            if (first := int(hit.argmax())) or hit[0]:
                near = [first + int(more) for more in np.flatnonzero(hit[first : first + RUN])]
                found = [(start + place, self._block(int(places[place]), behind)) for place in near]
                # Of pieces that are alike one may begin on the border of a block and the one that was meant not.
                return next((pair for pair in found if pair[1] >= behind), found[0])
            start, size = start + len(windows), size * 4
        return None

    def _block(self, place: int, behind: int) -> int:
        """Of the blocks equal to the one at `place` of the sorted ones, which is their first: where the one is that is to be taken."""
        last = int(np.searchsorted(self._sorted, self._sorted[place], side="right"))
        blocks = self._order[place:last]
        wanted = bisect_left(blocks, -(-behind // RUN))
        return int(blocks[wanted if wanted < len(blocks) else 0]) * RUN


def _windows(ids: Ids) -> NDArray[np.uint64]:
    """The hash of each window of `RUN` ids."""
    hashes = ids.astype(np.uint64)
    for power, factor in enumerate(_FACTORS):
        hashes = hashes[: -(1 << power)] * factor + hashes[1 << power :]
    return hashes
