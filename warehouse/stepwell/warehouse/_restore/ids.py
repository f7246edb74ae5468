"""Whole prompts in ids, from operations over their bases: copied piece by piece straight into the memory of one Arrow column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._restore.bases import Bases, Broken, Places, offsets_of

IDS_NEEDED = ("prompt_length", "prompt_ops", "prompt_suffix", "response_ids")

_KIND = pa.large_list(pa.int32())


def whole_prompts(bases: Bases, broken: Broken) -> pa.Array:
    """`prompt_ids` of each row: large_list<int32>, null for a step without tokens and for one of `broken`, which this adds to."""
    steps = bases.steps
    suffix, response = _Lists.of(steps["prompt_suffix"]), _Lists.of(steps["response_ids"])
    there = suffix.valid & response.valid
    lengths = np.where(there, steps["prompt_length"].fill_null(0).to_numpy(), 0).astype(np.int64)
    ops = _Ops.of(_Lists.of(steps["prompt_ops"]), suffix, there)
    bad = _unfit(ops, bases, lengths, suffix, response)
    for row in bases.order[bad[bases.order]].tolist():
        broken[row] = _why(bases, row, broken)
    good = there & ~bad
    lengths = np.where(good, lengths, 0)
    offsets = offsets_of(lengths)
    whole = np.frombuffer(pa.allocate_buffer(4 * int(offsets[-1])), np.int32)
    _fill(whole, ops.of_rows(good), bases, offsets, lengths, suffix, response)
    return pa.LargeListArray.from_arrays(
        pa.array(offsets, pa.int64()), pa.array(whole), type=_KIND, mask=pa.array(~good)
    )


@dataclass(frozen=True, slots=True)
class _Lists:
    """A list column as one run of values: where each row's begin, and how many they are."""

    values: NDArray[np.int32]
    starts: Places
    lengths: Places
    valid: NDArray[np.bool_]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> _Lists:
        chunk = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        offsets = chunk.offsets.to_numpy().astype(np.int64)
        valid = chunk.is_valid().to_numpy(zero_copy_only=False)
        return cls(chunk.values.to_numpy(), offsets[:-1], np.where(valid, np.diff(offsets), 0), valid)


@dataclass(frozen=True, slots=True)
class _Ops:
    """One entry for each operation of each row, those of a row behind each other."""

    row: Places
    source: Places
    copied: Places
    own: Places
    odd: Places
    """Rows whose operations are no triples."""

    @classmethod
    def of(cls, ops: _Lists, suffix: _Lists, there: NDArray[np.bool_]) -> _Ops:
        counts = np.where(there, ops.lengths // 3, 0)
        rows = np.repeat(np.arange(len(counts)), counts)
        first = np.repeat(ops.starts, counts) + 3 * (np.arange(len(rows)) - np.repeat(offsets_of(counts)[:-1], counts))
        alone = np.flatnonzero(there & (counts == 0))  # no operations: all of it is own
        nothing = np.zeros(len(alone), np.int64)
        triples = [ops.values[first + place].astype(np.int64) for place in range(3)]
        row = np.concatenate([rows, alone])
        order = np.argsort(row, kind="stable")
        own = suffix.lengths[alone]
        source, copied, count = (
            np.concatenate(pair)[order] for pair in zip(triples, (nothing, nothing, own), strict=True)
        )
        return cls(row[order], source, copied, count, odd=np.flatnonzero(there & (ops.lengths % 3 != 0)))

    def of_rows(self, kept: NDArray[np.bool_]) -> _Ops:
        mask = kept[self.row]
        return _Ops(self.row[mask], self.source[mask], self.copied[mask], self.own[mask], self.odd)

    def total(self, values: Places, count: int) -> Places:
        """The sum of `values`, one per operation, for each of `count` rows."""
        ends = offsets_of(values)
        borders = np.searchsorted(self.row, np.arange(count + 1))
        sums: Places = ends[borders[1:]] - ends[borders[:-1]]
        return sums

    def within(self, values: Places) -> Places:
        """For each operation, the sum of `values` over those of the same row before it."""
        before = np.cumsum(values) - values
        sums: Places = before - before[np.searchsorted(self.row, self.row)]
        return sums


def _unfit(ops: _Ops, bases: Bases, lengths: Places, suffix: _Lists, response: _Lists) -> NDArray[np.bool_]:
    """Rows that cannot be restored, and all that take ids from them."""
    base = bases.row[ops.row]
    room = np.where(base >= 0, (lengths + response.lengths)[base], 0)
    wrong = (ops.source < 0) | (ops.copied < 0) | (ops.own < 0) | ((ops.copied > 0) & (ops.source + ops.copied > room))
    bad = ops.total(wrong.astype(np.int64), bases.count) > 0
    bad |= ops.total(ops.copied + ops.own, bases.count) != lengths
    bad |= ops.total(ops.own, bases.count) != suffix.lengths
    bad[ops.odd] = True
    if not bad.any():
        return bad
    return bases.spread(bad, ops.total(ops.copied, bases.count) > 0)


def _why(bases: Bases, row: int, broken: Broken) -> str:
    if bases.lost[row]:
        return bases.why_lost(row)
    why = f"the prompt of step {bases.name(row)} cannot be restored: what is stored of it does not fit its base"
    return broken.get(int(bases.row[row]), why)


def _fill(
    whole: NDArray[np.int32],
    ops: _Ops,
    bases: Bases,
    offsets: Places,
    lengths: Places,
    suffix: _Lists,
    response: _Lists,
) -> None:
    """What is taken from bases' prompts comes last, bases first: those are whole by then."""
    base = bases.row[ops.row]
    target = offsets[ops.row] + ops.within(ops.copied + ops.own)
    prompt = np.where(base >= 0, lengths[base], 0)
    of_prompt = np.clip(prompt - ops.source, 0, ops.copied)
    behind = response.starts[base] + np.maximum(ops.source - prompt, 0)
    mine = suffix.starts[ops.row] + ops.within(ops.own)
    _copy(whole, suffix.values, target + ops.copied, mine, ops.own)
    _copy(whole, response.values, target + of_prompt, behind, ops.copied - of_prompt)
    rank = np.empty(bases.count, np.int64)
    rank[bases.order] = np.arange(bases.count)
    order = np.argsort(rank[ops.row], kind="stable")
    _copy(whole, whole, target[order], (offsets[base] + ops.source)[order], of_prompt[order])


def _copy(
    whole: NDArray[np.int32], values: NDArray[np.int32], targets: Places, sources: Places, counts: Places
) -> None:
    """One memory copy each: through memory views, whose slices cost a third of numpy's."""
    some = counts > 0
    into, out = memoryview(whole), memoryview(values)
    for target, source, count in zip(
        targets[some].tolist(), sources[some].tolist(), counts[some].tolist(), strict=True
    ):
        into[target : target + count] = out[source : source + count]
