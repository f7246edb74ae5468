"""Keeping a warehouse small and quick: payloads that nothing needs go, many fragments become few, indices follow, old versions go.

It works beside commits and readers. Only what it removes can hurt anybody: versions that a reader still holds on to, so they are kept
for longer than the longest reader, counted from when they stopped being the newest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import lance

from stepwell.errors import StoreError
from stepwell.warehouse._datasets.pins import PINNED
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import DATASET_ROWS, DATASETS, EXCHANGES, PAYLOADS, STEPS, TableSpec
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep import beside
from stepwell.warehouse._upkeep.compact import MANY, compact, wanted
from stepwell.warehouse._upkeep.done import Maintenance, Tended
from stepwell.warehouse._upkeep.indices import lacking, make
from stepwell.warehouse._upkeep.raw import expire
from stepwell.warehouse._upkeep.sweep import sweep
from stepwell.warehouse._upkeep.unregistered import sweep_pins, sweep_rows

_log = logging.getLogger(__name__)

KEPT = timedelta(hours=1)

_ATTEMPTS = 3


class Maintainer:
    """Tends the tables of a warehouse; one thread. Several at once are no harm: whoever comes second tries again."""

    def __init__(
        self,
        root: str,
        tables: Mapping[str, LedgerTable],
        storage_options: Mapping[str, str],
        *,
        keep: timedelta = KEPT,
        keep_raw: timedelta | None = None,
        many: int = MANY,
        full: bool = False,
        stop: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`many`: the fragments that are worth a compaction. `full`: merge large ones, too. `now`: seconds since the epoch.

        `keep_raw`: how old raw calls may become; None: they stay.
        """
        self._keep_raw = keep_raw
        self._root, self._tables, self._options = root, tables, storage_options
        self._keep, self._many, self._full = keep, many, full
        self._stop, self._now = stop, now

    def round(self, *, dry_run: bool = False, measured: bool = False) -> Maintenance:
        """All that there is to do. What fails is told and left for the next round; the rest is done.

        `measured`: list all files before and after, which on a bucket takes a request for a thousand of them.
        """
        said = self.nothing()
        if measured:
            self._measure(said, "before")
        self.sweep(said, dry_run=dry_run)
        self.tidy(said, dry_run=dry_run)
        self.tend(said, dry_run=dry_run)
        if measured and not dry_run:
            self._measure(said, "after")
        return said

    def nothing(self) -> Maintenance:
        """A round in which nothing was done yet, to pass to the methods below."""
        return Maintenance({name: Tended() for name in self._tables})

    def sweep(self, said: Maintenance, *, dry_run: bool = False) -> None:
        """Payloads that nothing refers to, rows and pins of datasets that are not registered, and raw calls that were kept long enough."""
        self._expire(said, dry_run=dry_run)
        if two := self._both(PAYLOADS, STEPS):
            try:
                said.payloads = sweep(*two, self._now(), dry_run=dry_run)
            except StoreError as error:
                _note(said.errors, "sweeping the payloads", error)
        if two := self._both(DATASET_ROWS, DATASETS):
            try:
                said.datasets = sweep_rows(*two, self._now(), dry_run=dry_run)
                if self._tables.keys() >= set(PINNED):
                    pins = sweep_pins(self._tables, self._now(), dry_run=dry_run)
                    said.datasets = said.datasets._replace(pins=pins)
            except StoreError as error:
                _note(said.errors, "sweeping the rows and pins of datasets", error)

    def _both(self, one: TableSpec, other: TableSpec) -> tuple[LedgerTable, LedgerTable] | None:
        """These two tables, where there are both and there is still time."""
        there = {one.name, other.name} <= self._tables.keys() and not self._stop()
        return (self._tables[one.name], self._tables[other.name]) if there else None

    def _expire(self, said: Maintenance, *, dry_run: bool) -> None:
        if self._keep_raw is not None and EXCHANGES.name in self._tables and not self._stop():
            try:
                before = self._now() - self._keep_raw.total_seconds()
                said.raw = expire(self._tables[EXCHANGES.name], before, dry_run=dry_run)
            except StoreError as error:
                _note(said.errors, "removing old raw calls", error)

    def tidy(self, said: Maintenance, *, dry_run: bool = False) -> None:
        """What lies beside the tables and was left by somebody."""
        try:
            there = beside.beside(self._root, self._options)
            gone = beside.litter(there, self._now())
            if (commits := self._tables.get("commits")) is not None:
                commits.refresh()
                gone += beside.unreached(self._root, self._options, there, commits.marks(), self._now())
            said.litter = [one.key for one in gone]
            if gone and not dry_run:
                objects_at(self._root, self._options).delete(said.litter)
        except StoreError as error:
            _note(said.errors, f"tidying {self._root}", error)

    def tend(self, said: Maintenance, *, clean: bool = True, dry_run: bool = False) -> None:
        """The tables, one after the other. Removing versions, with `clean`, reads the manifest of every version that there is."""
        for name, table in self._tables.items():
            if self._stop():
                return
            done = said.tables[name]
            try:
                table.refresh()
                if dry_run:
                    self._plan(table, done)
                else:
                    self._tend(table, done, clean)
            except StoreError as error:
                _log.warning("maintaining %s failed, and is tried again later: %s", table.uri, error)
                done.error = str(error)

    def _plan(self, table: LedgerTable, done: Tended) -> None:
        done.fragments = len(wanted(table, many=self._many, full=self._full))
        done.indices = list(guarded(table.uri, lacking, table.dataset, table.spec.name))
        old = self._outdated(table.dataset)
        if old:
            said = guarded(
                table.uri,
                table.dataset.explain_cleanup_old_versions,
                versions=old,
                error_if_tagged_old_versions=False,
            ).stats
            done.versions, done.removed = said.old_versions, said.bytes_removed

    def _tend(self, table: LedgerTable, done: Tended, clean: bool) -> None:
        done.fragments = compact(table, many=self._many, full=self._full, stop=self._stop)
        for column, name in guarded(table.uri, lacking, table.dataset, table.spec.name).items():
            if self._stop():
                return
            guarded(table.uri, make, table.dataset, table.spec.name, column, name)
            done.indices.append(column)
            table.refresh()
        old = self._outdated(table.dataset) if clean else []
        if old:
            # Never `delete_unverified`: what looks like litter may be a fragment that is announced and not committed.
            said = guarded(
                table.uri, table.dataset.cleanup_old_versions, versions=old, error_if_tagged_old_versions=False
            )
            done.versions, done.removed = said.old_versions, said.bytes_removed

    def _outdated(self, dataset: lance.LanceDataset) -> list[int]:
        """Versions that were followed by another before the time to be kept.

        By their own age one would go that was the newest until a moment ago, when nothing was committed before that for long.
        """
        versions = _versions(dataset)
        limit = self._now() - self._keep.total_seconds()
        # Local times without a zone; where an hour comes twice, the later one is the safe one.
        ends = [version["timestamp"].replace(fold=1).timestamp() for version in versions[1:]]
        return [version["version"] for version, end in zip(versions[:-1], ends, strict=True) if end <= limit]

    def _measure(self, said: Maintenance, when: str) -> None:
        for name, table in self._tables.items():
            try:
                setattr(said.tables[name], when, guarded(table.uri, size_of, table.dataset))
            except StoreError as error:
                _note(said.errors, f"measuring {table.uri}", error)


def _versions(dataset: lance.LanceDataset) -> Sequence[Mapping[str, Any]]:
    """All versions, oldest first. Lance lists them and then reads each, which fails where somebody else cleans up just then."""
    for _ in range(_ATTEMPTS):
        try:
            return guarded(dataset.uri, dataset.versions)
        except StoreError as error:
            if "not found" not in str(error).lower():
                raise
    return []


def size_of(dataset: lance.LanceDataset) -> int:
    """Bytes of all files in the table's place, whether anything refers to them or not."""
    return sum(sum(batch["size_bytes"].to_pylist()) for batch in dataset.all_files())


def _note(errors: list[str], what: str, error: StoreError) -> None:
    _log.warning("%s failed, and is tried again later: %s", what, error)
    errors.append(f"{what} failed: {error}")
