"""The warehouse: its tables at one place, local or on an object store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Self

import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._datasets import Datasets
from stepwell.warehouse._found import with_findings
from stepwell.warehouse._ledger import LedgerTable, Marks
from stepwell.warehouse._maintain import KEPT, maintain
from stepwell.warehouse._openings import with_openings
from stepwell.warehouse._query import run_query
from stepwell.warehouse._read import by_id
from stepwell.warehouse._s3 import check_store, is_object_store
from stepwell.warehouse._schema import COMMITS, TABLES
from stepwell.warehouse._views import TRAINING_ORDER


class Warehouse:
    """Steps, events and datasets, readable at the newest committed state. Open it with `Warehouse.open`.

    An object is for one thread at a time; readers in several threads or processes open their own.
    """

    def __init__(self, uri: str, tables: Mapping[str, LedgerTable]) -> None:
        self.uri = uri
        self.tables = tables

    @classmethod
    def open(cls, uri: str | Path, *, storage_options: Mapping[str, str] | None = None, create: bool = True) -> Self:
        """Open the warehouse at a folder or `s3://bucket/prefix`, creating its tables where they are missing.

        `storage_options` are Lance's (`aws_endpoint`, `aws_region`, …); credentials may come from the AWS environment.

        Raises:
            StoreError: the place cannot be reached or used, or is empty and `create` is False.
        """
        root, options = str(uri), dict(storage_options or {})
        if is_object_store(root):
            check_store(root, options, write=create)
        elif create:
            _make_folder(Path(root))
        elif not (Path(root) / f"{COMMITS.name}.lance").exists():
            raise StoreError(f"there is no warehouse at {root}; `stepwell up` or `stepwell demo` makes one")
        return cls(root, {spec.name: LedgerTable(spec, root, options, create=create) for spec in TABLES})

    @cached_property
    def datasets(self) -> Datasets:
        """Named, frozen, versioned selections for training."""
        return Datasets(self.tables, self.query)

    def refresh(self) -> None:
        """Look at the newest committed state."""
        # The round's last table first: what it calls committed is then sure to be in the others.
        for table in sorted(self.tables.values(), key=lambda table: table.spec is not COMMITS):
            table.refresh()

    def marks(self) -> Marks:
        """Each producer's record number up to which everything is committed. Looks at the newest state."""
        self.tables["commits"].refresh()
        return self.tables["commits"].marks()

    def wait_for(self, marks: Mapping[str, int], timeout: float) -> Marks:
        """The barrier: return when everything up to `marks` is committed; what is still missing after `timeout` seconds.

        An empty answer means that all of it is there. `stepwell.spool.marks(folder)` says what was accepted so far.
        """
        deadline = time.monotonic() + timeout
        while True:
            committed = self.marks()
            missing = {producer: mark for producer, mark in marks.items() if committed.get(producer, 0) < mark}
            if not missing or time.monotonic() >= deadline:
                self.refresh()
                return missing
            time.sleep(0.05)

    def maintain(self, *, keep: timedelta = KEPT) -> None:
        """Compact every table and remove versions older than `keep`. Ingest does so by itself as it works; not while it runs.

        Readers of versions that old fail: `keep` is to be longer than the longest of them.
        """
        self.refresh()
        maintain(self.tables.values(), fragments=2, keep=keep)

    def query(self, sql: str) -> pa.Table:
        """The answer to one read-only SQL statement over the views, at the newest state.

        Raises:
            StepwellError: the statement is not valid, not a query, or fails.
        """
        self.refresh()
        return run_query(self.tables, sql)

    def steps(self, where: str | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
        """Steps with whole prompts: every readable column, `prompt_ids`, `messages` and `tools` among them.

        `where` is a condition over the view `steps`. Rows come in the order group, trajectory, commit.
        """
        condition = f"WHERE ({where}\n)" if where else ""
        rows = self.query(f"SELECT step_id FROM steps {condition} ORDER BY {TRAINING_ORDER}")
        return self.whole(rows["step_id"].to_pylist(), columns)

    def whole(self, step_ids: Sequence[str], columns: Sequence[str] | None = None) -> pa.Table:
        """The steps of these ids, in this order, with whole prompts. Ids that are not there are left out."""
        names = None if columns is None else list(dict.fromkeys([*columns, "trajectory_id", "step_id", "policy_label"]))
        events = self.tables["events"].dataset
        found = with_findings(with_openings(by_id(self.tables["steps"].dataset, step_ids, names), events), events)
        return found if columns is None else found.select(list(columns))


def _make_folder(root: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot make the warehouse folder {root}: {error}") from error
