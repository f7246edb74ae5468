"""Rows out of the tables, and their bytes out of the store: files, old versions, tags, indices, and what failed flushes left."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import lance
import pyarrow as pa
from lance.file import LanceFileReader
from lance.optimize import Compaction

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._forget.plan import Plan
from stepwell.warehouse._store.objects import Objects
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.compact import is_conflict
from stepwell.warehouse._upkeep.indices import INDICES, make

_log = logging.getLogger(__name__)

_ATTEMPTS = 20
_LISTED = 500
"""Ids in one condition."""

Ids = dict[str, Collection[str]]
"""By column, the values of rows that go: one of them is enough."""


@dataclass(slots=True)
class Purged:
    """What was removed."""

    rows: dict[str, int] = field(default_factory=dict)
    """By table."""
    tags: list[str] = field(default_factory=list)
    """Tags whose versions had some of it, as `table:tag`."""
    indices: list[str] = field(default_factory=list)
    """Indices that Stepwell did not make and cannot make anew, as `table:index`."""
    litter: list[str] = field(default_factory=list)
    """Files of no version that had some of it."""
    unreadable: list[str] = field(default_factory=list)
    """Files of no version of which nobody can say: clean-up takes them after a week."""


def fence(table: LedgerTable) -> None:
    """A commit that was begun before this cannot land after it.

    Raises:
        StoreError: the store failed, or others came first every time.
    """
    _persistent(table, lambda: table.commit([], {}))


def rows_that_go(made: Plan) -> dict[str, Ids]:
    """By table, which rows. Whether others need a payload is known when all this is gone."""
    return {
        "dataset_rows": {"step_id": made.steps, "trajectory_id": made.trajectories},
        "events": {"event_id": made.events},
        "exchanges": {"exchange_id": made.exchanges, "trajectory_id": made.trajectories},
        "steps": {"step_id": made.steps, "trajectory_id": made.trajectories},
    }


def delete(table: LedgerTable, ids: Ids) -> int:
    """Delete these rows; how many."""
    count = 0
    for condition in _conditions(ids):
        table.refresh()
        there = table.dataset.count_rows(filter=condition)
        count += there
        if there:
            _persistent(table, lambda wanted=condition: guarded(table.uri, table.dataset.delete, wanted))  # type: ignore[misc]
    return count


def replace(table: LedgerTable, rows: pa.Table) -> None:
    """Put `rows` in the place of those that have their keys, in one version."""

    def merge() -> None:
        builder = table.dataset.merge_insert(table.spec.key).when_matched_update_all()
        guarded(table.uri, builder.execute, rows)

    if rows.num_rows:
        _persistent(table, merge)


def scrub(table: LedgerTable, ids: Ids, said: Purged) -> None:
    """Nothing in the table's files is to hold what was deleted: write anew what has deleted rows, and forget all older versions.

    Whoever reads an older version at this moment fails.

    Raises:
        StoreError: the store failed.
    """
    _untag(table, ids, said)
    _persistent(table, lambda: guarded(table.uri, _rewrite, table.dataset))
    _index_anew(table, said)
    fence(table)  # the newest version's own transaction must not be the one that names what was deleted
    clean = table.dataset.cleanup_old_versions
    guarded(table.uri, clean, older_than=timedelta(0), error_if_tagged_old_versions=False)
    table.refresh()


def sweep_litter(
    table: LedgerTable, ids: Ids, objects: Objects, options: Mapping[str, str], said: Purged
) -> Collection[str]:
    """Remove data files of no version that have some of these rows; the payloads those rows referred to.

    A flush that was refused has left them, or one that nobody announced.
    """
    table.refresh()
    used = _files(table.dataset)
    for version in table.dataset.tags.list().values():
        used |= _files(table.dataset.checkout_version(version["version"]))
    folder, payloads = f"{table.spec.name}.lance/data", set[str]()
    for key, _ in objects.listed(folder):
        name = key.removeprefix(f"{folder}/")
        if name in used:
            continue
        try:
            rows = _rows_of(f"{table.uri}/data/{name}", options)
        except (OSError, ValueError, RuntimeError) as error:
            _log.warning("%s/%s is of no version, and cannot be read: %s", table.uri, name, error)
            said.unreadable.append(key)
            continue
        found = [row for row in rows if any(row.get(column) in values for column, values in ids.items())]
        if found:
            objects.delete([key])
            said.litter.append(key)
            payloads |= {id_ for row in found for id_ in row.get("payload_ids") or ()}
    return payloads


def _files(dataset: lance.LanceDataset) -> set[str]:
    return {file.path for fragment in dataset.get_fragments() for file in fragment.metadata.files}


_NAMING = ("step_id", "trajectory_id", "event_id", "target_id", "exchange_id", "payload_id", "payload_ids")


def _rows_of(path: str, options: Mapping[str, str]) -> list[dict[str, Any]]:
    reader = LanceFileReader(path, storage_options=dict(options))
    names = [name for name in reader.metadata().schema.names if name in _NAMING]
    reader = LanceFileReader(path, storage_options=dict(options), columns=names)
    rows: list[dict[str, Any]] = reader.read_all().to_table().to_pylist()
    return rows


def _untag(table: LedgerTable, ids: Ids, said: Purged) -> None:
    table.refresh()
    for tag, version in table.dataset.tags.list().items():
        old = guarded(table.uri, table.dataset.checkout_version, version["version"])
        try:
            has = any(old.count_rows(filter=condition) for condition in _conditions(ids))
        except (OSError, ValueError, RuntimeError):  # what cannot be read cannot be shown to be without it
            has = True
        if has:
            guarded(table.uri, table.dataset.tags.delete, tag)
            said.tags.append(f"{table.spec.name}:{tag}")


def _rewrite(dataset: lance.LanceDataset) -> None:
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    if not any(fragment.num_deletions for fragment in fragments):
        return
    options: Any = {
        "excluded_fragment_ids": [fragment.id for fragment in fragments if not fragment.num_deletions],
        "materialize_deletions": True,
        "materialize_deletions_threshold": 0.0,
        "compaction_mode": "reencode",  # pages that are copied as they are keep the rows that were deleted
        "batch_size": 256,
        "num_threads": 1,
    }
    for task in Compaction.plan(dataset, options).tasks:
        Compaction.commit(dataset, [task.execute(dataset)])


def _index_anew(table: LedgerTable, said: Purged) -> None:
    """An index keeps the values of rows that were deleted."""
    table.refresh()
    for index in table.dataset.describe_indices():
        column = index.field_names[0]
        known = len(index.field_names) == 1 and column in INDICES.get(table.spec.name, {})
        if not known:
            said.indices.append(f"{table.spec.name}:{index.name}")

        def anew(known: bool = known, column: str = column, name: str = index.name) -> None:
            if not known or name != f"{column}_idx":
                guarded(table.uri, table.dataset.drop_index, name)
            if known:
                guarded(table.uri, make, table.dataset, table.spec.name, column, None)

        _persistent(table, anew)


def _persistent(table: LedgerTable, call: Callable[[], object]) -> None:
    """Again and again while others change the same files."""
    for _ in range(_ATTEMPTS):
        table.refresh()
        try:
            call()
        except CommitConflict:
            continue
        except StoreError as error:
            if not is_conflict(error):
                raise
        else:
            table.refresh()
            return
    raise StoreError(f"could not change {table.uri}: others changed it at each of {_ATTEMPTS} attempts")


def _conditions(ids: Ids) -> Iterator[str]:
    for column, values in ids.items():
        ordered: Sequence[str] = sorted(values)
        for start in range(0, len(ordered), _LISTED):
            listed = ", ".join("'" + value.replace("'", "''") + "'" for value in ordered[start : start + _LISTED])
            yield f"{column} IN ({listed})"
