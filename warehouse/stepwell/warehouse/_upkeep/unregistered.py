"""Rows of datasets that the registry does not have: what a creation or a deletion leaves that was cut short.

A dataset's rows are written before it is registered. So only those go that were begun long ago; whoever was held up for that long looks
for its rows once it has registered them (see `_datasets/datasets`).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from stepwell.warehouse._datasets.dataset_id import made_at
from stepwell.warehouse._datasets.frozen import remove
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.sweep import KEPT


class Unregistered(NamedTuple):
    """Datasets that nobody can name, and their rows."""

    datasets: int = 0
    rows: int = 0


def sweep_rows(rows: LedgerTable, registry: LedgerTable, now: float, *, dry_run: bool = False) -> Unregistered:
    """Delete the rows of datasets that are older than `KEPT` and not registered, or registered no more. `now`: seconds since the epoch.

    Raises:
        StoreError: the store failed, or others changed the same fragments each time.
    """
    counts = guarded(
        rows.uri, _counts, rows
    )  # before the registry is looked at: what is written from now on is not in them
    old = [id_ for id_ in counts if (made_at(id_) or now) < now - KEPT]
    if not old:
        return Unregistered()
    registry.refresh()
    known = guarded(registry.uri, registry.dataset.to_table, ["dataset_id"], "fingerprint IS NOT NULL")
    gone = sorted(set(old).difference(known["dataset_id"].to_pylist()))
    for id_ in () if dry_run else gone:
        remove(rows, id_)
    return Unregistered(len(gone), sum(counts[id_] for id_ in gone))


def _counts(rows: LedgerTable) -> Counter[str]:
    """Rows by dataset."""
    rows.refresh()
    counts: Counter[str] = Counter()
    for batch in rows.dataset.to_batches(columns=["dataset_id"], filter="ledger IS NULL"):
        for one in batch["dataset_id"].value_counts().to_pylist():
            counts[one["values"]] += one["counts"]
    return counts
