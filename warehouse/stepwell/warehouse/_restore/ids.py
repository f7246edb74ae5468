"""Whole prompts in ids, from operations over their bases: copied piece by piece straight into the memory of one Arrow column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._restore.bases import Bases, Broken, Places, offsets_of
from stepwell.warehouse._restore.fill import Stored, fill
from stepwell.warehouse._restore.operations import Lists, Operations
from stepwell.warehouse._tables.numbers import as_arrow

IDS_NEEDED = ("prompt_length", "prompt_ops", "prompt_suffix", "response_ids")

_KIND = pa.large_list(pa.int32())


def whole_prompts(bases: Bases, broken: Broken, rows: Places | None = None) -> pa.Array:
    """`prompt_ids` of these different rows, by default of each in turn: large_list<int32>.

    Null for a step without tokens and for one of `broken`, which this adds to, for all rows. Of the bases that are not among `rows`
    only what those have of them is copied.
    """
    steps = bases.steps
    suffix, response = Lists.of(steps["prompt_suffix"]), Lists.of(steps["response_ids"])
    there = suffix.valid & response.valid
    lengths = np.where(there, steps["prompt_length"].fill_null(0).to_numpy(), 0).astype(np.int64)
    ops = Operations.of(Lists.of(steps["prompt_ops"]), suffix, there)
    bad = _unfit(ops, bases, lengths, suffix, response)
    for row in bases.order[bad[bases.order]].tolist():
        broken[row] = _why(bases, row, broken)
    good = there & ~bad
    lengths = np.where(good, lengths, 0)
    asked = np.arange(bases.count) if rows is None else rows
    offsets = offsets_of(lengths[asked])
    whole = np.frombuffer(pa.allocate_buffer(4 * int(offsets[-1])), np.int32)
    fill(whole, asked, offsets, Stored(bases, ops.of_rows(good), lengths, suffix, response))
    missing = None if good[asked].all() else as_arrow(~good[asked])
    return pa.LargeListArray.from_arrays(as_arrow(offsets), as_arrow(whole), type=_KIND, mask=missing)


def _unfit(ops: Operations, bases: Bases, lengths: Places, suffix: Lists, response: Lists) -> NDArray[np.bool_]:
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
