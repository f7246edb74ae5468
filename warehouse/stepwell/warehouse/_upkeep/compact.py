"""Compaction: many small fragments of a table become one, beside the commits.

Each commit leaves a fragment, and every reader and every commit pays for each of them. The fragment of the ledger row is left alone:
it is the only one that commits change, so that a compaction and a commit never conflict, however long one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import lance
from lance.optimize import Compaction, CompactionOptions

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.again import is_conflict
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded

MANY = 100
"""Fragments that are worth it."""

SMALL = 4096
"""A fragment of so few rows is merged with whatever there is."""

_COPIED = 256
"""Rows per fragment from which on pages are copied as they are: below, each would be a page of its own, and reading ten times slower."""

_PIECE_BYTES = 512 << 20
_PIECE_ROWS = (1024, 1 << 20)
"""A fragment grows up to so many bytes, or rows where those are small or large, and is then left as it is."""

_BATCH_BYTES = 16 << 20
_SPARSE = 0.1
"""The part of a fragment's rows that is deleted from which on it is written anew."""

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Fragment:
    """What matters of a fragment here. `rows` were written, `deleted` of them are deleted."""

    id: int
    rows: int
    deleted: int
    size: int

    @property
    def sparse(self) -> bool:
        """Whether much of it is not there any more."""
        return self.deleted > self.rows * _SPARSE


def fragments_of(dataset: lance.LanceDataset) -> list[Fragment]:
    """Its fragments, oldest first."""
    return [
        Fragment(
            one.id, one.physical_rows or 0, one.num_deletions, sum(file.file_size_bytes or 0 for file in one.files)
        )
        for one in (fragment.metadata for fragment in dataset.get_fragments())
    ]


def chosen(fragments: Sequence[Fragment], *, full: bool = False) -> list[Fragment]:
    """Which fragments to merge: the small ones, and those that are no larger than all that is newer.

    A row is so written anew as often as the table doubles, not with each compaction. `full`: all but the finished ones.
    """
    limit, newer, found = piece_rows(fragments), 0, list[Fragment]()
    for one in reversed(fragments):
        kept = one.rows - one.deleted
        if one.sparse or (kept < limit and (full or kept <= max(SMALL, newer))):
            found.append(one)
        newer += kept
    return found[::-1]


def piece_rows(fragments: Sequence[Fragment]) -> int:
    """How many rows make a fragment finished."""
    rows, size = sum(one.rows for one in fragments), sum(one.size for one in fragments)
    return min(max(_PIECE_BYTES * rows // max(size, 1), _PIECE_ROWS[0]), _PIECE_ROWS[1])


def wanted(table: LedgerTable, *, many: int = MANY, full: bool = False) -> list[Fragment]:
    """What `compact` would merge in the table as it is; nothing when that is not worth it."""
    there = fragments_of(table.dataset)
    if len(there) < many and not any(one.sparse for one in there):
        return []  # without a request to the store
    home = table.home()
    found = chosen([one for one in there if one.id != home], full=full)
    return found if len(found) >= many or any(one.sparse for one in found) else []


def compact(
    table: LedgerTable, *, many: int = MANY, full: bool = False, stop: Callable[[], bool] = lambda: False
) -> int:
    """Merge fragments piece by piece, each a commit of its own, until all is done or `stop` says so; how many fragments are gone.

    Raises:
        StoreError: the store failed, or others changed the same fragments each time.
    """
    for _ in range(_ATTEMPTS):
        table.refresh()
        found = wanted(table, many=many, full=full)
        if not found:
            return 0
        try:
            return guarded(table.uri, _compact, table, found, stop)
        except CommitConflict:
            continue
        except StoreError as error:
            if not is_conflict(error):
                raise
    raise StoreError(
        f"could not compact {table.uri}: others changed the same fragments at each of {_ATTEMPTS} attempts"
    )


def _compact(table: LedgerTable, found: Sequence[Fragment], stop: Callable[[], bool]) -> int:
    dataset, merged = table.dataset, {one.id for one in found}
    everything = fragments_of(dataset)
    rows, size = sum(one.rows for one in found), sum(one.size for one in found)
    options: CompactionOptions = {
        "excluded_fragment_ids": [one.id for one in everything if one.id not in merged],
        "target_rows_per_fragment": piece_rows(everything),
        "compaction_mode": "try_binary_copy" if rows >= _COPIED * len(found) else "reencode",
        "batch_size": min(max(_BATCH_BYTES * rows // max(size, 1), 16), 8192),
        "num_threads": 1,  # commits and queries go on meanwhile
    }
    gone = 0
    for task in Compaction.plan(dataset, options).tasks:
        if stop():
            break
        metrics = Compaction.commit(dataset, [task.execute(dataset)])
        gone += metrics.fragments_removed - metrics.fragments_added
    table.refresh()
    return gone
