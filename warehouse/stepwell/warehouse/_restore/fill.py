"""Copying ids to where they belong. A row that is handed out takes what it can from others that are.

Of a base that is not handed out only those ranges are looked for that are needed, through its own base and so on: the last step of a long
chain costs its own length, and not that of every prompt before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepwell.warehouse._restore.bases import Bases, Places, offsets_of
from stepwell.warehouse._restore.operations import Lists, Operations

_Ids = NDArray[np.int32]
_Copy = tuple[int, int, int]
"""Where to, where from, and how many."""


class Stored(NamedTuple):
    """What there is of each row. A row that cannot be restored, or has no tokens, is of length 0 and has no operations."""

    bases: Bases
    ops: Operations
    lengths: Places
    suffix: Lists
    response: Lists

    def own(self) -> Places:
        """Where the own ids of each operation begin in the suffixes."""
        begun: Places = self.suffix.starts[self.ops.row] + self.ops.within(self.ops.own)
        return begun


def fill(whole: _Ids, rows: Places, offsets: Places, stored: Stored) -> None:
    """Write the prompts of these different `rows` into `whole`, each at its offset."""
    bases, response = stored.bases, stored.response
    at = np.full(bases.count, -1, np.int64)
    at[rows] = offsets[:-1]
    asked = stored._replace(ops=stored.ops.of_rows(at >= 0))
    ops = asked.ops
    base, target = bases.row[ops.row], at[ops.row] + ops.within(ops.copied + ops.own)
    prompt = np.where(base >= 0, stored.lengths[base], 0)
    of_prompt = np.clip(prompt - ops.source, 0, ops.copied)
    behind = response.starts[base] + np.maximum(ops.source - prompt, 0)
    _copy(whole, stored.suffix.values, _copies(target + ops.copied, asked.own(), ops.own))
    _copy(whole, response.values, _copies(target + of_prompt, behind, ops.copied - of_prompt))
    rank = np.empty(bases.count, np.int64)
    rank[bases.order] = np.arange(bases.count)
    pieces = np.stack([rank[ops.row], base, ops.source, of_prompt, target], axis=1)[of_prompt > 0]
    near = at[pieces[:, 1]] >= 0
    if not near.all():
        ranges = _Ranges(stored, at)
        for piece in pieces[~near].tolist():
            ranges.follow(*piece)
        _copy(whole, stored.suffix.values, ranges.own)
        _copy(whole, response.values, ranges.responses)
        pieces = np.concatenate([pieces[near], np.array(ranges.prompts, np.int64).reshape(-1, 5)])
    # What is taken from prompts that are handed out comes last, bases first: those are whole by then.
    _, base, source, count, target = pieces[np.argsort(pieces[:, 0], kind="stable")].T
    _copy(whole, whole, _copies(target, at[base] + source, count))


class _Ranges:
    """Where ranges of prompts come from that are not handed out themselves."""

    def __init__(self, stored: Stored, at: Places) -> None:
        ops = stored.ops
        ends = np.cumsum(ops.copied + ops.own)
        self._op_begins: list[int] = (ends - ops.copied - ops.own).tolist()
        self._op_ends: list[int] = ends.tolist()
        """In all prompts, as if those were one behind the other."""
        self._begins: list[int] = offsets_of(stored.lengths).tolist()
        self._source, self._copied, self._mine = ops.source.tolist(), ops.copied.tolist(), stored.own().tolist()
        self._base: list[int] = stored.bases.row[ops.row].tolist()
        self._lengths: list[int] = stored.lengths.tolist()
        self._responses: list[int] = stored.response.starts.tolist()
        self._handed_out: list[bool] = (at >= 0).tolist()
        self.own: list[_Copy] = []
        self.responses: list[_Copy] = []
        self.prompts: list[tuple[int, int, int, int, int]] = []
        """As they are given to `follow`: of rows that are handed out."""

    def follow(self, rank: int, row: int, source: int, count: int, target: int) -> None:
        """Find `count` ids of the prompt of `row`, from `source` on, for `target`; `rank` is that of the row they are for."""
        waiting = [(row, source, count, target)]
        while waiting:
            row, source, count, target = waiting.pop()
            if self._handed_out[row]:
                self.prompts.append((rank, row, source, count, target))
                continue
            begin = self._begins[row] + source
            end, op = begin + count, bisect_right(self._op_ends, begin)
            while begin < end:
                size = min(end, self._op_ends[op]) - begin
                if piece := self._of_operation(op, begin - self._op_begins[op], size, target):
                    waiting.append(piece)
                begin, target, op = begin + size, target + size, op + 1

    def _of_operation(self, op: int, skipped: int, size: int, target: int) -> tuple[int, int, int, int] | None:
        """Note what `size` ids of an operation are copied from; what of them is of the base's prompt, as `follow` takes it."""
        copied = max(0, min(self._copied[op] - skipped, size))
        if size > copied:
            mine = self._mine[op] + max(skipped - self._copied[op], 0)
            self.own.append((target + copied, mine, size - copied))
        if not copied:
            return None
        base, source = self._base[op], self._source[op] + skipped
        of_prompt = max(0, min(self._lengths[base] - source, copied))
        if copied > of_prompt:
            behind = self._responses[base] + max(source - self._lengths[base], 0)
            self.responses.append((target + of_prompt, behind, copied - of_prompt))
        return (base, source, of_prompt, target) if of_prompt else None


def _copies(targets: Places, sources: Places, counts: Places) -> Iterable[_Copy]:
    some = counts > 0
    return zip(targets[some].tolist(), sources[some].tolist(), counts[some].tolist(), strict=True)


def _copy(whole: _Ids, values: _Ids, copies: Iterable[_Copy]) -> None:
    """One memory copy each: through memory views, whose slices cost a third of numpy's."""
    into, out = memoryview(whole), memoryview(values)
    for target, source, count in copies:
        into[target : target + count] = out[source : source + count]
