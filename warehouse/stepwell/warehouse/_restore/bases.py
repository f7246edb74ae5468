"""Which row of a table of steps is a difference to which other one."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.warehouse._tables.numbers import as_arrow

Places = NDArray[np.int64]

Broken = MutableMapping[int, str]
"""By row, why something of it cannot be restored."""


BASES_NEEDED = ("step_id", "base_id", "base_depth")


class Bases:
    """The rows of `steps`, which has the columns `BASES_NEEDED`, in any order."""

    def __init__(self, steps: pa.Table, row: Places | None = None) -> None:
        """`row`: where the base of each is, if that is known."""
        self.steps = steps
        self.count: int = steps.num_rows
        self.row: Places = _rows_of(steps) if row is None else row
        """The row of each row's base; -1 where it has none, or it is not there."""
        self.lost: NDArray[np.bool_] = steps["base_id"].is_valid().to_numpy() & (self.row < 0)
        self.order = self._order()
        """Every row, bases before what refers to them."""

    def only(self, kept: NDArray[np.bool_], columns: Sequence[str]) -> Bases:
        """The rows that are true in `kept` (bool [rows]), which has the base of each with it, with `columns`, `BASES_NEEDED` among them."""
        steps = self.steps.select(columns)
        if kept.all():
            return Bases(steps, self.row)  # filtering copies, even where it keeps all
        place = np.append(np.cumsum(kept) - 1, -1)  # the last one for rows without a base, which is -1
        return Bases(steps.filter(as_arrow(kept)), place[self.row[kept]])

    def _order(self) -> Places:
        places = np.arange(self.count)
        if bool((self.row < places).all()):  # as they were committed
            return places
        return np.argsort(self.steps["base_depth"].fill_null(0).to_numpy(), kind="stable")

    def name(self, row: int) -> str:
        """The step's id."""
        return str(self.steps["step_id"][row].as_py())

    def why_lost(self, row: int) -> str:
        """Where the base of a row should be and is not."""
        return f"step {self.name(row)} refers to step {self.steps['base_id'][row].as_py()}, which is not there"

    def spread(self, rows: NDArray[np.bool_], through: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """`rows`, and all that refer to them, directly or not, where `through` says that something of the base is used."""
        linked = through & (self.row >= 0)
        while True:
            more = rows | (linked & rows[self.row])
            if bool((more == rows).all()):
                return more
            rows = more

    def chain(self, rows: Places) -> NDArray[np.bool_]:
        """Which rows are these, or what they refer to, directly or not: bool [rows]."""
        wanted, last, behind = np.zeros(self.count, np.bool_), np.zeros(self.count, np.int64), rows
        while len(behind):
            wanted[behind] = True
            behind = self.row[behind]
            behind = behind[behind >= 0]
            behind = behind[~wanted[behind]]
            last[behind] = np.arange(len(behind))
            behind = behind[last[behind] == np.arange(len(behind))]  # each of them once
        return wanted


def _rows_of(steps: pa.Table) -> Places:
    ids = steps["step_id"].combine_chunks() if steps.num_rows else pa.array([], pa.string())
    found = pc.call_function("index_in", [steps["base_id"]], pc.SetLookupOptions(value_set=ids, skip_nulls=True))
    row: Places = found.fill_null(-1).to_numpy().astype(np.int64)
    return row


def offsets_of(lengths: Places) -> Places:
    """Where each of several consecutive pieces begins, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def pieces(weights: Places, limit: int) -> Iterator[tuple[int, int]]:
    """Borders of consecutive pieces of at most `limit` each, or of one that is more."""
    ends, start = np.cumsum(weights), 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        yield start, stop
        start = stop
