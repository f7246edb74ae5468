"""Payloads that nothing refers to any more, and those that are there twice.

A payload may be put before the step that refers to it, by a writer that knows it to be there. So only what is older than a week goes:
a writer puts again what it has not seen for three days (see `_encode/payloads`), and what it wrote is committed within one, or refused.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded

KEPT = 7 * 24 * 3600.0
"""Seconds after which a payload without a reference goes."""

_AT_ONCE = 5_000
"""Rows in one deletion, which names each of them."""


class Swept(NamedTuple):
    """What `sweep` removes: rows whose payload nothing refers to, rows that another one stands for, and their bytes of data."""

    unreferenced: int = 0
    twice: int = 0
    size: int = 0


def sweep(payloads: LedgerTable, steps: LedgerTable, now: float, *, dry_run: bool = False) -> Swept:
    """Delete what is not needed; their bytes go when the table is compacted and cleaned. `now`: seconds since the epoch.

    The memory it takes is that of the payloads' ids.

    Raises:
        StoreError: the store failed, or others changed the same fragments each time.
    """
    payloads.refresh()  # before the steps: what is put from now on is not looked at
    columns = ["payload_id", "size", "created_at"]
    rows = guarded(payloads.uri, payloads.dataset.to_table, columns, "ledger IS NULL", with_row_id=True)
    if not rows.num_rows:
        return Swept()
    steps.refresh()
    rows = rows.sort_by([("payload_id", "ascending"), ("created_at", "ascending")])
    ids = rows["payload_id"].combine_chunks()
    last = np.append(np.asarray(pc.call_function("not_equal", [ids[1:], ids[:-1]])), True)  # the newest of each id
    at = rows["created_at"].cast(pa.int64()).fill_null(0).to_numpy() / 1e6
    old = last & (at < now - KEPT)
    if old.any():
        old[old] = ~guarded(steps.uri, referenced, steps, ids.filter(pa.array(old)))
    gone = old | ~last
    if gone.any() and not dry_run:
        delete_rows(payloads, rows["_rowid"].to_numpy()[gone])
    size = int(rows["size"].fill_null(0).to_numpy()[gone].sum())
    return Swept(int(old.sum()), int((~last).sum()), size)


def referenced(steps: LedgerTable, ids: pa.Array) -> NDArray[np.bool_]:
    """Which of `ids` any step refers to, committed or about to be. Bool [ids]."""
    asked, found = pc.SetLookupOptions(value_set=ids), np.zeros(len(ids), np.bool_)
    for batch in steps.dataset.to_batches(columns=["payload_ids"], filter="payload_ids IS NOT NULL"):
        places = pc.call_function("index_in", [batch["payload_ids"].flatten()], asked)
        found[places.drop_null().to_numpy()] = True
    return found


def delete_rows(table: LedgerTable, row_ids: NDArray[np.uint64]) -> None:
    """Delete the rows of these ids, wherever compaction has moved them.

    Raises:
        StoreError: the store failed, or others changed the same fragments each time.
    """
    for start in range(0, len(row_ids), _AT_ONCE):
        listed = ", ".join(map(str, row_ids[start : start + _AT_ONCE].tolist()))
        again(table, partial(_delete, table, f"_rowid IN ({listed})"))


def _delete(table: LedgerTable, condition: str) -> None:
    guarded(table.uri, table.dataset.delete, condition)
