"""A warehouse of schema 1 becomes one of schema 2.

Table by table, each in one atomic step: an interrupted migration is begun again and goes on with the tables that are left, and until the
last one is done neither version of Stepwell opens the warehouse. What was there before stays in the tables' old versions until
those are cleaned up.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping

import lance
import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._datasets import frozen
from stepwell.warehouse._datasets.registry import Dataset
from stepwell.warehouse._migrate import rows as made
from stepwell.warehouse._store.lease import BEAT, PATIENCE, Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._store.s3 import check_store, is_object_store
from stepwell.warehouse._tables.ledger import LedgerTable, Marks
from stepwell.warehouse._tables.schema import (
    COMMITS,
    DATASET_ROWS,
    DATASETS,
    EVENTS,
    EXCHANGES,
    SCHEMA_VERSION,
    STEPS,
    STORAGE_VERSION,
    TABLES,
    TableSpec,
)
from stepwell.warehouse._tables.table import first_line, guarded, ledger_row, uri_of

_BEFORE = 1
_BATCH = 1024

# `commits` is last: as long as it is of schema 1, its marks are there for the others.
_ORDER = (EXCHANGES, STEPS, EVENTS, DATASET_ROWS, DATASETS, COMMITS)

Options = Mapping[str, str]
Rows = Iterator[pa.Table]


def migrate(
    root: str,
    storage_options: Options,
    *,
    dry_run: bool = False,
    say: Callable[[str], None] = lambda _: None,
    patience: float = PATIENCE,
) -> list[str]:
    """Bring every table under `root` to today's schema; the names of those that were not yet. `dry_run`: only that.

    `say` is told of each table that is done. An ingest that commits is looked for during `patience` seconds.

    Raises:
        StoreError: there is no warehouse, its schema is of no version that can be migrated, an ingest works on it, or the store failed.
    """
    if is_object_store(root):
        check_store(root, storage_options, write=not dry_run)
    old = [spec for spec in _ORDER if _version(spec, root, storage_options) == _BEFORE]
    if not old or dry_run:
        return [spec.name for spec in old]
    if COMMITS not in old:
        raise StoreError(
            f"{uri_of(old[0], root)} is older than the table commits: copy the warehouse back from a backup"
        )
    lease = _alone(root, storage_options, patience)
    try:
        marks = _marks(root, storage_options)
        for spec in old:
            lease.hold()
            _replace(spec, root, storage_options, marks)
            say(spec.name)
        for spec in TABLES:  # those that are new
            LedgerTable(spec, root, storage_options)
    finally:
        lease.release()
    return [spec.name for spec in old]


def _version(spec: TableSpec, root: str, options: Options) -> int:
    dataset = _open(spec, root, options)
    version = int((dataset.schema.metadata or {}).get(b"stepwell:schema", b"0"))
    if not _BEFORE <= version <= SCHEMA_VERSION:
        do = "upgrade Stepwell" if version > SCHEMA_VERSION else "is it a table of Stepwell?"
        raise StoreError(
            f"the table {dataset.uri} has schema {version}; {_BEFORE} can be migrated to {SCHEMA_VERSION}: {do}"
        )
    return version


def _open(spec: TableSpec, root: str, options: Options) -> lance.LanceDataset:
    uri = uri_of(spec, root)
    try:
        return lance.dataset(uri, storage_options=dict(options))
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(f"cannot open the table {uri}: {first_line(error)}") from error


def _alone(root: str, options: Options, patience: float) -> Lease:
    """The lease, which no ingest may have. (One of schema 1 has none: it is told by what it commits meanwhile.)"""
    lease = Lease(objects_at(root, options), f"migrate-{uuid.uuid4().hex}", patience=patience)
    deadline = time.monotonic() + 2 * patience + BEAT
    while not lease.hold():
        if time.monotonic() >= deadline:
            raise StoreError(f"an ingest works on {root}: stop it, wherever it runs, and migrate then")
        time.sleep(min(BEAT, patience) / 5)
    return lease


def _marks(root: str, options: Options) -> Marks:
    """Each producer's mark in `commits`, of schema 1 as of 2."""
    rows = _open(COMMITS, root, options).to_table(columns=["commit", "marks"], filter="ledger IS NULL")
    commits = made.commit_rows(rows.append_column("created_at", pa.nulls(rows.num_rows)).to_batches())
    return dict(zip(commits["producer"].to_pylist(), commits["sequence"].to_pylist(), strict=True))


def _replace(spec: TableSpec, root: str, options: Options, marks: Marks) -> None:
    """Write the table anew over itself."""
    before = _open(spec, root, options)
    rows, ledger = _rows(spec, before, root, options, marks)

    def batches() -> Iterator[pa.RecordBatch]:
        for table in rows:
            yield from table.to_batches()
        yield from ledger.to_batches()

    after = guarded(
        before.uri,
        lance.write_dataset,
        pa.RecordBatchReader.from_batches(spec.schema, batches()),
        before.uri,
        mode="overwrite",
        storage_options=dict(options),
        data_storage_version=STORAGE_VERSION,
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=True,
    )
    if after.version != before.version + 1:
        guarded(before.uri, before.checkout_version(after.version - 1).restore)
        raise StoreError(
            f"somebody committed to {before.uri} meanwhile; it is as it was: stop every ingest and gateway, and migrate then"
        )


def _rows(
    spec: TableSpec, before: lance.LanceDataset, root: str, options: Options, marks: Marks
) -> tuple[Rows, pa.Table]:
    """The table's rows, and its ledger row."""
    batches = before.to_batches(filter="ledger IS NULL", batch_size=_BATCH)
    if spec is COMMITS:
        rows = made.commit_rows(batches)
        return iter([rows]), ledger_row(spec, marks, max(rows["commit"].to_pylist(), default=0))
    if spec is DATASETS:
        return iter([_datasets(batches, root, options)]), ledger_row(spec, {}, 0)
    if spec is DATASET_ROWS:
        return (made.plain_rows(batch, spec) for batch in batches), ledger_row(spec, {}, 0)
    kept = (made.committed(batch, marks) for batch in batches)
    # What a table had beyond the marks is left out, and comes again from the spools.
    ledger = ledger_row(spec, marks, 0)
    if spec is STEPS:
        lengths = made.Lengths(before.to_batches(["step_id", "prompt_length", "response_ids"], filter="ledger IS NULL"))
        return (made.step_rows(batch, lengths) for batch in kept), ledger
    return (made.plain_rows(batch, spec) for batch in kept), ledger


def _datasets(batches: Iterable[pa.RecordBatch], root: str, options: Options) -> pa.Table:
    table = LedgerTable(DATASET_ROWS, root, options)
    rows = []
    for row in (row for batch in batches for row in batch.to_pylist()):
        said = {name: row[name] for name in ("name", "version", "steps", "filter", "note", "at_commit", "fingerprint")}
        known = Dataset(**said, pinned=False, created_at=row["created_at"], dataset_id=row["dataset_id"])
        rows.append(made.dataset_row(row, frozen.rows_of(table, known), frozen.peers_of(table, known)))
    return pa.Table.from_pylist(rows, schema=DATASETS.schema)
