"""Rows out of the tables, and their bytes out of the tables' versions: files, tags, indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance.optimize import Compaction

from stepwell.warehouse._forget.plan import Plan
from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import GROUPS, TRAJECTORIES
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.indices import INDICES, make

_LISTED = 500
"""Ids in one condition."""

Ids = dict[str, AbstractSet[str]]
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

    def count(self, table: str, rows: int) -> None:
        """So many more."""
        self.rows[table] = self.rows.get(table, 0) + rows


def fence(table: LedgerTable) -> None:
    """A commit that was begun before this cannot land after it.

    Raises:
        StoreError: the store failed, or others came first every time.
    """
    again(table, partial(table.commit, [], {}))


def rows_that_go(made: Plan) -> dict[str, Ids]:
    """By table, which rows. Whether others need a payload is known when all this is gone."""
    return {
        "dataset_rows": {"step_id": made.steps, "trajectory_id": made.trajectories},
        "events": {"event_id": made.events},
        "exchanges": {"exchange_id": made.exchanges, "trajectory_id": made.trajectories},
        "steps": {"step_id": made.steps, "trajectory_id": made.trajectories},
    }


def naming_it(made: Plan) -> dict[str, Ids]:
    """The same, and which rows of summaries were made of some of them: those that were cleared name them in older versions."""
    summaries: dict[str, Ids] = {TRAJECTORIES.name: {"trajectory_id": made.trajectories | made.partly}, GROUPS.name: {}}
    return rows_that_go(made) | summaries


def delete(table: LedgerTable, ids: Ids) -> int:
    """Delete these rows; how many."""
    count = 0
    for condition in _conditions(ids):
        table.refresh()
        there = table.dataset.count_rows(filter=condition)
        count += there
        if there:
            again(table, partial(_delete, table, condition))
    return count


def _delete(table: LedgerTable, condition: str) -> None:
    guarded(table.uri, table.dataset.delete, condition)


def replace(table: LedgerTable, rows: pa.Table) -> None:
    """Put `rows` in the place of those that have their keys, in one version."""

    def merge() -> None:
        builder = table.dataset.merge_insert(table.spec.key).when_matched_update_all()
        guarded(table.uri, builder.execute, rows)

    if rows.num_rows:
        again(table, merge)


def payloads_of(table: LedgerTable, made: Plan) -> list[dict[str, Any]]:
    """The rows, without their data, of the payloads that the plan names."""
    table.refresh()
    columns = ["payload_id", "producer", "sequence"]
    rows = table.dataset.to_table(columns, "ledger IS NULL", with_row_id=True)
    wanted = pc.SetLookupOptions(value_set=pa.array(sorted(made.payloads), pa.string()))
    found: list[dict[str, Any]] = rows.filter(pc.call_function("is_in", [rows["payload_id"]], wanted)).to_pylist()
    return found


def scrub(table: LedgerTable, ids: Ids, said: Purged) -> None:
    """Nothing in the table's files is to hold what was deleted: write anew what has deleted rows, and forget all older versions.

    Whoever reads an older version at this moment fails.

    Raises:
        StoreError: the store failed.
    """
    _untag(table, ids, said)
    again(table, lambda: guarded(table.uri, _rewrite, table.dataset))
    _index_anew(table, said)
    fence(table)  # the newest version's own transaction must not be the one that names what was deleted
    clean = table.dataset.cleanup_old_versions
    guarded(table.uri, clean, older_than=timedelta(0), error_if_tagged_old_versions=False)
    table.refresh()


def _untag(table: LedgerTable, ids: Ids, said: Purged) -> None:
    table.refresh()
    for tag, version in table.dataset.tags.list().items():
        old = guarded(table.uri, table.dataset.checkout_version, version["version"])
        try:
            has = any(_holds(old, condition) for condition in _conditions(ids))
        except (OSError, ValueError, RuntimeError):  # what cannot be read cannot be shown to be without it
            has = True
        if has:
            guarded(table.uri, table.dataset.tags.delete, tag)
            said.tags.append(f"{table.spec.name}:{tag}")


def _holds(dataset: lance.LanceDataset, condition: str) -> bool:
    """Whether the files of a version have such a row: also one that is deleted, of which a `forget` that was interrupted left the bytes."""
    if dataset.count_rows(filter=condition):
        return True
    if not any(fragment.num_deletions for fragment in dataset.get_fragments()):
        return False
    deleted: Any = {
        "include_deleted_rows": True,
        "with_row_id": True,
        "use_scalar_index": False,
    }  # indices leave them out
    return bool(dataset.to_table(columns=[], filter=condition, limit=1, **deleted).num_rows)


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

        again(table, anew)


def _conditions(ids: Ids) -> Iterator[str]:
    for column, values in ids.items():
        ordered: Sequence[str] = sorted(values)
        for start in range(0, len(ordered), _LISTED):
            listed = ", ".join("'" + value.replace("'", "''") + "'" for value in ordered[start : start + _LISTED])
            yield f"{column} IN ({listed})"
