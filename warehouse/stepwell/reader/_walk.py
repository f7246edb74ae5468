"""One pass over rows in prefix order, with a stack: which path leads to each, where branches hang, and where subtrees end.

Most rows only go on where the row before them ends, and are placed all at once. The pass walks over the *turns*, the rows that do not.
Its stack holds the current root-to-leaf path as runs of adjacent packed positions: a turn pops what it does not share, and pushes what is
new. It handles lengths only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stepwell.reader._arrays import I64, Bools, offsets_of

NONE: I64 = np.zeros(1, np.int64)
"""What stands before the first row."""


def turns_of(lengths: I64, shared: I64) -> Bools:
    """[S] Rows that begin a tree, share less than all of the row before, or have tokens that do not follow those packed last.

    All others lengthen the run that the path ends with, or repeat the row before. Where rows repeat, those packed last are of an earlier
    one: what is appended follows them when that one is as long as what is shared.
    """
    before = np.concatenate([NONE, lengths])[:-1]
    packed = np.maximum.accumulate(np.where(lengths > shared, np.arange(len(lengths)), 0))
    last = lengths[np.concatenate([NONE, packed])[:-1]]
    found: Bools = (shared == 0) | (shared != before) | ((shared != last) & (lengths > shared))
    return found


@dataclass
class Walk:
    """The path to the current row, as runs of adjacent packed positions, and what was found on the way."""

    path: list[list[int]] = field(default_factory=list)
    """Each run's `[depth, depth_end, packed_start]`, from the root down."""
    segments: list[tuple[int, int]] = field(default_factory=list)
    chains: list[tuple[int, int, int]] = field(default_factory=list)
    shift: list[int] = field(default_factory=list)
    """For each turn: packed position less depth in the run that the path ends with. 0 for an empty path."""
    torn: dict[int, int] = field(default_factory=dict)
    """Rows whose response lies in several runs, or above the last, and in how many."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Packed start and length of each of those parts, row by row."""

    def over(self, turns: I64, shared: I64, lengths: I64, prompts: I64, own: I64) -> None:
        """Walk over the turns. The rows up to the next one end in the same run, which is as long as the last of them then."""
        if not len(turns):
            return
        stops = np.append(turns[1:], len(lengths))
        columns = (turns, stops, shared[turns], lengths[turns], own[turns], lengths[stops - 1])
        shortest = np.minimum.reduceat(prompts, turns)
        numbers = zip(*(column.tolist() for column in (*columns, shortest)), strict=True)
        for row, stop, same, length, position, end, prompt in numbers:
            self.leave(same, position)
            if length > same:
                self._append(same, position)
            if not self.path:
                self.shift.append(0)
                continue
            top = self.path[-1]
            self.shift.append(top[2] - top[0])
            if prompt < top[0]:
                self._respond(row, prompts[row:stop].tolist(), lengths[row:stop].tolist())
            top[1] = end

    def leave(self, depth: int, position: int) -> None:
        """Take everything at `depth` and deeper off the path: its subtrees end at packed `position`."""
        path = self.path
        while path and path[-1][0] >= depth:
            self.segments.append((path.pop()[2], position))
        if path and path[-1][1] > depth:
            top = path[-1]
            self.segments.append((top[2] + depth - top[0], position))
            top[1] = depth

    def _append(self, depth: int, position: int) -> None:
        """A chain that begins at packed `position`, below the path."""
        top = self.path[-1] if self.path else None
        self.chains.append((position, depth, top[2] + depth - 1 - top[0] if top else -1))
        self.path.append([depth, depth, position])

    def _respond(self, first: int, prompts: list[int], lengths: list[int]) -> None:
        """Record where depths [prompt, length) of the path lie, as spans in ascending order, for rows where that is not in the last run."""
        for row, (prompt, end) in enumerate(zip(prompts, lengths, strict=True), first):
            if prompt >= self.path[-1][0]:
                continue
            found = []
            for depth, _, start in reversed(self.path):
                begin = max(depth, prompt)
                found.append((start + begin - depth, end - begin))
                end = begin
                if end == prompt:
                    break
            self.torn[row] = len(found)
            self.spans += reversed(found)

    def responses(self, lengths: I64, prompts: I64, shift: I64) -> tuple[I64, I64, I64]:
        """The spans of all rows: CSR offsets [S+1], packed starts, and lengths. An empty row has none, and nearly all others have one."""
        counts = np.minimum(lengths, 1)
        rows = list(self.torn)
        counts[rows] = list(self.torn.values())
        start, length = (shift + prompts).repeat(counts), (lengths - prompts).repeat(counts)
        if rows:
            torn = np.zeros(len(lengths), np.bool_)
            torn[rows] = True
            there = torn.repeat(counts)
            start[there], length[there] = np.array(self.spans, np.int64).T
        return offsets_of(counts), start, length
