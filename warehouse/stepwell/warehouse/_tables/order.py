"""The order in which rows came: by commit, then by producer and its own numbers. Clocks say nothing about it."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._tables.versions import History


def in_order(rows: pa.Table, key: str, commits: lance.LanceDataset) -> pa.Table:
    """`rows`, which have `producer`, `sequence` and the column `key`, in the order in which they count.

    Steps of one record come by their `turn`, where that is among the columns. Those that are stored and not committed yet come last.
    """
    if not rows.num_rows:
        return rows
    found = History.read(commits).commit_of(rows["producer"], rows["sequence"])
    columns = {name: rows[name] for name in ("producer", "sequence", "turn", key) if name in rows.schema.names}
    order = pa.table({"commit": np.where(found == 0, np.iinfo(np.int64).max, found), **columns})
    keys = [(name, "ascending") for name in order.column_names]
    return rows.take(pc.call_function("sort_indices", [order], pc.SortOptions(keys)))
