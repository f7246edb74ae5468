"""What is stored of the trajectories that a query comes across, a part of it in memory at any time.

A query asks for steps as it comes to them, some thousand at a time, for each of the columns in turn; which those are is not known before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import lance
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._restore.read import stored_of
from stepwell.warehouse._restore.trajectories import Trajectories

_FEW = 4096
"""Trajectories that are found by an index, before all of them are looked up at once."""
_KEPT = 192 << 20
"""Bytes of stored rows that stay for who asks next: of about a hundred thousand steps."""
_AT_ONCE = 24 << 20
"""About what is read together."""
_BEGUN_WITH = 32
"""Trajectories that are read together before it is known how much is stored of one."""
_MOST = 2048


class Passing:
    """For one query over one version of `steps`, and the columns that restoring `columns` needs."""

    def __init__(self, dataset: lance.LanceDataset, columns: Sequence[str]) -> None:
        self._dataset, self._columns = dataset, columns
        self._blocks: OrderedDict[int, tuple[list[str], pa.Table]] = OrderedDict()
        """Rows of some trajectories each, those that were asked for last at the end."""
        self._block_of: dict[str, int] = {}
        self._size, self._made, self._asked, self._many = 0, 0, 0, _BEGUN_WITH
        self._ids: pa.Array | None = None
        self._all: Trajectories | None = None

    def stored(self, trajectory_ids: pa.Array) -> Iterator[pa.Table]:
        """All rows of these different trajectories, as they are stored, those of each in one of the tables."""
        by_block: dict[int, list[str]] = {}
        missing = list[str]()
        for id_ in trajectory_ids.to_pylist():
            block = self._block_of.get(id_)
            (missing if block is None else by_block.setdefault(block, [])).append(id_)
        for block, ids in by_block.items():
            self._blocks.move_to_end(block)
            yield _of(self._blocks[block][1], ids)
        while missing:
            now, missing = missing[: self._many], missing[self._many :]
            rows = self._read(now)
            self._many = max(1, min(2 * self._many, self._many * _AT_ONCE // max(rows.nbytes, 1), _MOST))
            self._keep(now, rows)
            yield rows

    def _read(self, ids: list[str]) -> pa.Table:
        self._asked += len(ids)
        if self._asked <= _FEW:
            return stored_of(self._dataset, ids, self._columns).combine_chunks()
        if self._all is None:
            self._ids = self._dataset.to_table(columns=["trajectory_id"])["trajectory_id"].unique().drop_null()
            self._all = Trajectories(self._dataset, self._ids, self._columns)
        place = pc.call_function("index_in", [pa.array(ids, pa.string())], pc.SetLookupOptions(value_set=self._ids))
        return self._all.read(place.drop_null().to_numpy()).combine_chunks()

    def _keep(self, ids: list[str], rows: pa.Table) -> None:
        self._made += 1
        self._blocks[self._made] = ids, rows
        self._block_of.update(dict.fromkeys(ids, self._made))
        self._size += rows.nbytes
        while self._size > _KEPT and len(self._blocks) > 1:
            _, (gone, old) = self._blocks.popitem(last=False)
            self._size -= old.nbytes
            for id_ in gone:
                del self._block_of[id_]


def _of(rows: pa.Table, trajectory_ids: list[str]) -> pa.Table:
    wanted = pc.SetLookupOptions(value_set=pa.array(trajectory_ids, pa.string()))
    return rows.filter(pc.call_function("is_in", [rows["trajectory_id"]], wanted)).combine_chunks()
