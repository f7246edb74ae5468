"""Rows and pins of datasets that the registry does not have: what a creation or a deletion leaves that was cut short.

A dataset's rows and pins are made before it is registered. So only those go that were begun long ago; whoever was held up for that long
looks for its rows once it has registered them (see `_datasets/datasets`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwell.warehouse._datasets.dataset_id import made_at
from stepwell.warehouse._datasets.frozen import remove
from stepwell.warehouse._datasets.pins import PINNED, is_pin, tag_of
from stepwell.warehouse._datasets.registry import Registry
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import DATASETS
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.sweep import KEPT


class Unregistered(NamedTuple):
    """Datasets that nobody can name, and their rows; tags that pin tables for such ones."""

    datasets: int = 0
    rows: int = 0
    pins: int = 0


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


def sweep_pins(tables: Mapping[str, LedgerTable], now: float, *, dry_run: bool = False) -> int:
    """Remove tags that were set before `KEPT`, for a dataset that is not registered as pinned; how many those are.

    Raises:
        StoreError: the store failed.
    """
    old = {name: {tag for tag, at in _pins(tables[name]).items() if at < now - KEPT} for name in PINNED}
    if not any(old.values()):
        return 0
    registry = tables[DATASETS.name]
    registry.refresh()
    kept = {tag_of(dataset) for dataset in Registry(registry).list() if dataset.pinned}
    gone = [(tables[name], tag) for name, tags in old.items() for tag in sorted(tags - kept)]
    for table, tag in () if dry_run else gone:
        if _pins(table).get(tag, now) < now - KEPT:  # else a creation has just set it anew
            guarded(table.uri, table.dataset.tags.delete, tag)
    return len(gone)


def _pins(table: LedgerTable) -> dict[str, float]:
    """The tags of ours that a table has, and when each was set (seconds since the epoch)."""
    table.refresh()
    tags: dict[str, Any] = guarded(table.uri, table.dataset.tags.list)
    return {tag: said["updated_at"].timestamp() for tag, said in tags.items() if is_pin(tag) and said["updated_at"]}


def _counts(rows: LedgerTable) -> Counter[str]:
    """Rows by dataset."""
    rows.refresh()
    counts: Counter[str] = Counter()
    for batch in rows.dataset.to_batches(columns=["dataset_id"], filter="ledger IS NULL"):
        for one in batch["dataset_id"].value_counts().to_pylist():
            counts[one["values"]] += one["counts"]
    return counts
