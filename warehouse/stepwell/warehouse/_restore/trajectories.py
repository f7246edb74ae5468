"""What is stored of many trajectories, some at a time: found by the index where they are few, by one look at the whole column else."""

from __future__ import annotations

from collections.abc import Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.warehouse._restore.bases import Places
from stepwell.warehouse._restore.read import stored_names, stored_of
from stepwell.warehouse._tables.numbers import as_arrow

_LOOK_UP = 200
"""As many rows of a column are read in the time that it takes to find one trajectory by an index."""

_AT_ONCE = 1 << 20


class Trajectories:
    """The rows of these different trajectories in one version of `steps`, with at least the columns that restoring `columns` needs."""

    def __init__(self, dataset: lance.LanceDataset, ids: pa.Array, columns: Sequence[str]) -> None:
        self._dataset, self._ids, self._columns = dataset, ids, columns
        self._order: Places | None = None
        if len(ids) * _LOOK_UP > dataset.count_rows():
            codes = self._codes()
            self._order = np.argsort(codes, kind="stable")
            self._borders = np.searchsorted(codes[self._order], np.arange(len(ids) + 1))

    def read(self, numbers: NDArray[np.int32]) -> pa.Table:
        """All rows of those with these places among the ids, in the order of the table."""
        if self._order is None:
            return stored_of(self._dataset, self._ids.take(as_arrow(numbers)).to_pylist(), self._columns)
        parts = [self._order[self._borders[number] : self._borders[number + 1]] for number in numbers.tolist()]
        rows = np.sort(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
        return self._dataset.take(rows, columns=stored_names(self._dataset, self._columns))

    def _codes(self) -> NDArray[np.int32]:
        """For each row of the table the place of its trajectory among the ids; -1 for others."""
        among = pc.SetLookupOptions(value_set=self._ids)
        found = [np.zeros(0, np.int32)]
        for batch in self._dataset.to_batches(columns=["trajectory_id"], batch_size=_AT_ONCE):
            place = pc.call_function("index_in", [batch["trajectory_id"]], among)
            found.append(pc.fill_null(place, -1).to_numpy(zero_copy_only=False))
        return np.concatenate(found)
