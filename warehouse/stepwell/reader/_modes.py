"""The three ways to merge, as one: an order of the rows, and what each shares with the one before it.

`tree` merges every shared prefix. `trajectory` is for trainers without tree attention: a step that strictly extends another one of its
trajectory continues its sequence, and whatever does not begins a new one. `none` is a sequence per step. All three give the same terms:
lowering what a row shares computes tokens again, and changes nothing else.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64
from stepwell.reader._prefix import PrefixOrder, prefix_order
from stepwell.reader._sequences import Sequences

Merge = Literal["tree", "trajectory", "none"]


def check_merge(merge: str) -> None:
    """Raises InvalidRecord for a name that is none of the three."""
    if merge not in get_args(Merge):
        raise InvalidRecord("merge", f"is {merge!r}; must be one of {', '.join(get_args(Merge))}")


def arranged(sequences: Sequences, merge: Merge, trajectories: I64) -> PrefixOrder:
    """All rows in the order, and with the shared lengths, of a way to merge. `trajectories`: i64 [N], whose each row is."""
    check_merge(merge)
    if merge == "none":
        rows = np.arange(len(sequences), dtype=np.int64)
        return PrefixOrder(rows, np.zeros(len(rows), np.int64))
    if merge == "tree":
        return prefix_order(sequences)
    by_trajectory = np.argsort(trajectories, kind="stable")
    borders = np.flatnonzero(np.diff(trajectories[by_trajectory])) + 1
    lines = [_lines(sequences, rows) for rows in np.split(by_trajectory, borders)]
    return PrefixOrder(*(np.concatenate(parts) for parts in zip(*lines, strict=True)))


def _lines(sequences: Sequences, rows: I64) -> tuple[I64, I64]:
    """Order and shared lengths of one trajectory's rows: each continues its longest strict prefix that none continues yet."""
    by_prefix = prefix_order(sequences, rows)
    lengths = sequences.lengths[by_prefix.order]
    line, taken = np.arange(len(rows)), [False] * len(rows)
    common = np.zeros(len(rows), np.int64)
    path: list[tuple[int, int]] = []
    for row, (length, same) in enumerate(zip(lengths.tolist(), by_prefix.shared.tolist(), strict=True)):
        while path and path[-1][0] > same:
            path.pop()
        free = (before for size, before in reversed(path) if size < length and not taken[before])
        if (before := next(free, None)) is not None:
            taken[before], line[row], common[row] = True, line[before], lengths[before]
        path.append((length, row))
    # Within a line rows came in ascending length, so a stable sort by line puts each behind the one that it extends.
    by_line = np.argsort(line, kind="stable")
    return by_prefix.order[by_line], common[by_line]
