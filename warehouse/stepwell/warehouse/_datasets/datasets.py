"""Datasets: frozen, versioned selections with the values that were resolved when they were made.

A dataset is an ordered list of steps with their rewards, labels and content hashes. Steps never change, so nothing has to be pinned:
reading it later gives the same bytes, whatever was written, compacted or cleaned up since, and its fingerprint can prove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse._datasets import frozen
from stepwell.warehouse._datasets.dataset_id import new_id
from stepwell.warehouse._datasets.diff import difference
from stepwell.warehouse._datasets.forgotten import incomplete
from stepwell.warehouse._datasets.lineage import datasets_named, lineage_of
from stepwell.warehouse._datasets.pins import pin as pin_tables
from stepwell.warehouse._datasets.pins import unpin
from stepwell.warehouse._datasets.registry import Dataset, Registry, checked_name, reference
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._query.stream import stream
from stepwell.warehouse._query.views import TRAINING_ORDER
from stepwell.warehouse._restore.read import existing
from stepwell.warehouse._restore.whole import readable
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.versions import At

_ATTEMPTS = 5
"""How often a dataset is made anew of which something was forgotten while it was made."""


class Queries(Protocol):
    """What datasets need of a warehouse."""

    tables: Mapping[str, LedgerTable]

    def query(self, sql: str, at: At = None) -> pa.Table: ...

    def version(self, at: At = None) -> int: ...

    @property
    def payloads(self) -> Lookup: ...


class Datasets:
    """The datasets of a warehouse."""

    def __init__(self, warehouse: Queries) -> None:
        self._warehouse = warehouse
        self._tables = warehouse.tables
        self._registry = Registry(warehouse.tables["datasets"])

    def create(
        self,
        name: str,
        where: str = "trainable AND split = 'train' AND NOT side",
        *,
        note: str | None = None,
        pin: bool = False,
        at: At = None,
    ) -> Dataset:
        """Freeze the steps that `where` selects, a condition over the view `steps`, as the next version of `name`.

        Attempts of a call of which the client used another are never among them: the policy's answer went nowhere. `at` is the version of
        the warehouse to select from and to resolve at, by default the newest. `pin` keeps the files of today, too, for who reads them
        with plain LanceDB; nothing here needs that.

        Raises:
            InvalidRecord: the name cannot be one, nothing is selected, or there is no such version.
            StoreError: the store failed, or something was forgotten meanwhile, every time.
            StepwellError: the condition is no valid SQL.
        """
        checked_name(name)
        for _ in range(_ATTEMPTS):
            made = self._created(name, where, note, pin=pin, at=at)
            if made is not None:
                return made
        raise StoreError(f"something was forgotten each time that dataset {name} was made: create it again")

    def _created(self, name: str, where: str, note: str | None, *, pin: bool, at: At) -> Dataset | None:
        """None, and nothing is left of it, when something of it may be gone."""
        forgotten = self._forgotten()
        number = self._warehouse.version(at)
        query = partial(self._warehouse.query, at=number)
        used = f"({where}\n) AND superseded_by IS NULL"
        rows = query(f"SELECT {', '.join(frozen.ROW_COLUMNS)} FROM steps WHERE {used} ORDER BY {TRAINING_ORDER}")
        if not rows.num_rows:
            raise InvalidRecord("where", f"no step satisfies {where!r}: an empty dataset would train nothing")
        peers = query(frozen.peers_sql(used))
        made = Dataset(
            *(name, 0, rows.num_rows, where, note, number, frozen.fingerprint(rows, peers)),
            pinned=pin,
            created_at=datetime.now(UTC),
            dataset_id=new_id(),
        )
        lineage = {
            **lineage_of(query, used),
            "datasets": datasets_named(where, at, self.list()),
            "columns": readable(self._tables["steps"].dataset.schema.names),
        }
        frozen.write(self._tables["dataset_rows"], made.dataset_id, rows, peers)
        if self._forgotten() != forgotten:
            frozen.remove(self._tables["dataset_rows"], made.dataset_id)
            return None
        registered = self._register(made, lineage)
        # Whoever forgets may have looked for datasets before this one was there. Maintenance takes rows for left over that wait for long.
        there = frozen.count(self._tables["dataset_rows"], made.dataset_id) == rows.num_rows + peers.num_rows
        if there and self._forgotten() == forgotten:
            return registered
        self.delete(name, registered.version, force=True)
        return None

    def get(self, name: str, version: int | None = None) -> Dataset:
        """One version, the newest by default. Raises StoreError when there is none."""
        return self._registry.get(name, version)

    def list(self) -> list[Dataset]:
        """Every version of every dataset, by name and version."""
        return self._registry.list()

    def read(
        self, name: str, version: int | None = None, *, verify: bool = True, allow_incomplete: bool = False
    ) -> pa.Table:
        """The dataset's steps, whole, in its order, with rewards, labels and groups as they were frozen.

        `allow_incomplete`: also when some of them were forgotten; then only what is left can be verified, and not that it is all.

        Raises:
            StoreError: there is no such dataset, a step was forgotten or is gone, or (with `verify`) its content is not what was frozen.
        """
        return self.stream(name, version, verify=verify, allow_incomplete=allow_incomplete).read_all()

    def stream(
        self, name: str, version: int | None = None, *, verify: bool = True, allow_incomplete: bool = False
    ) -> pa.RecordBatchReader:
        """What `read` gives, a bounded number of steps at a time. Content that changed is found while the stream is read."""
        dataset = self.get(name, version)
        noted = self._registry.lineage(dataset)
        lacks = incomplete(noted)
        if lacks and not allow_incomplete:
            raise StoreError(
                f"dataset {dataset.label} is {lacks}: read what is left with allow_incomplete, or make another version"
            )
        rows = self.rows(dataset)
        if verify and not lacks:
            peers = frozen.peers_of(self._tables["dataset_rows"], dataset)
            if frozen.fingerprint(rows, peers) != dataset.fingerprint:
                raise StoreError(f"the rows of dataset {dataset.label} do not give its fingerprint: they were changed")
        table = self._tables["steps"]
        for needed in (table, self._tables["payloads"]):
            needed.refresh()
        missing = rows.num_rows - len(existing(table.dataset, "step_id", rows["step_id"].to_pylist()))
        if missing:
            raise StoreError(f"dataset {dataset.label}: {missing} of {rows.num_rows} steps are not in the warehouse")
        columns = dict.fromkeys([*noted["columns"], *frozen.RESOLVED])
        check = partial(frozen.verify, dataset) if verify else None
        return stream(table.dataset, rows, list(columns), frozen.RESOLVED, self._warehouse.payloads, check)

    def rows(self, dataset: Dataset) -> pa.Table:
        """The frozen rows of a version: ids, content hashes, rewards and labels, in order."""
        return frozen.rows_of(self._tables["dataset_rows"], dataset)

    def peers(self, name: str, version: int | None = None) -> pa.Table:
        """The rewarded trajectories of the dataset's groups of which no step was selected, with the rewards they had then.

        Baselines need them: what a filter leaves out of the loss must not move the mean of the group.
        """
        return frozen.peers_of(self._tables["dataset_rows"], self.get(name, version))

    def diff(self, before: str, after: str) -> pa.Table:
        """What changed between two datasets, each given as `name@version` (or `name`: its newest version). One row per step.

        `change` is `added`, `removed` or `changed`; of changed ones `columns` names the values that differ (rewards, labels, group, …).
        """
        earlier, later = (self.rows(self.get(*reference(text))) for text in (before, after))
        return difference(earlier, later)

    def lineage(self, name: str, version: int | None = None) -> dict[str, Any]:
        """Where a version comes from: commit, filter, policies, models, sources, numbers of trajectories and groups, other datasets."""
        dataset = self.get(name, version)
        noted = self._registry.lineage(dataset)
        noted.pop("columns", None)
        return {"dataset": dataset.label, "at_commit": dataset.at_commit, "filter": dataset.filter, **noted}

    def delete(self, name: str, version: int, *, force: bool = False) -> None:
        """Take a version out of the registry, and delete its rows and pins. The steps stay; its number is not given again.

        Asked again, it finishes a deletion that was cut short.

        Raises:
            StoreError: there is no such dataset, or it is pinned and `force` is False; the store failed.
        """
        left = self._registry.removed(name, version)
        dataset = left or self.get(name, version)
        if dataset.pinned and not (force or left):
            raise StoreError(f"dataset {dataset.label} is pinned: delete it by force, or not at all")
        if not left:
            self._registry.remove(dataset)
        rows = frozen.remove(self._tables["dataset_rows"], dataset.dataset_id)
        tags = dataset.pinned and unpin(self._tables, dataset)
        if left and not (rows or tags):
            self.get(name, version)  # it is gone, and so is all that it had

    def _forgotten(self) -> int:
        """Which version of the table of what was forgotten is the newest."""
        table = self._tables["forgotten"]
        table.refresh()
        version: int = table.dataset.version
        return version

    def _register(self, dataset: Dataset, lineage: Mapping[str, Any]) -> Dataset:
        """The registry row comes last: rows without one belong to no dataset, and pins are there before anybody relies on them."""
        tried: list[Dataset] = []

        def before(entry: Dataset) -> None:
            if dataset.pinned:
                self._unpin_lost(tried)
                pin_tables(self._tables, entry)
                tried.append(entry)

        return self._registry.add(dataset, lineage, before)

    def _unpin_lost(self, tried: Iterable[Dataset]) -> None:
        """Somebody else took the number: its pins are theirs, if they want any."""
        pinned = {item.label for item in self.list() if item.pinned}
        for entry in tried:
            if entry.label not in pinned:
                unpin(self._tables, entry)
