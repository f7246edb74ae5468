"""One table, committed exactly once.

A bare append that is repeated, or that a paused process resumes, doubles its rows: Lance rebases it silently. So every commit also
replaces the table's one *ledger row*, which holds each producer's high-water mark: it deletes the old one by deletion vector and adds
a new one. A commit that is stale or repeated then touches a row that is gone, and conflicts instead of landing. Compaction may
move the ledger row between data rows; it is found by its key, never by its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lance
import orjson
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.schema import TableSpec
from stepwell.warehouse._tables.table import LEDGER_KEY, guarded, ledger_row, opened, uri_of

_ATTEMPTS = 20

Marks = dict[str, int]


class LedgerTable:
    """A Lance table of one `TableSpec`, opened or created."""

    def __init__(
        self, spec: TableSpec, root: str, storage_options: Mapping[str, str] | None = None, *, create: bool = True
    ) -> None:
        """Open the table under `root`, creating it when it is missing and `create` says so.

        Raises:
            StoreError: the store cannot be read or written, the table is missing, or of another schema.
        """
        self.spec = spec
        self.uri = uri_of(spec, root)
        self._options = dict(storage_options or {})
        self._dataset = opened(spec, root, self._options, create=create)
        self._known: tuple[int, Marks, int] | None = None
        self._at: tuple[int, int] | None = None
        """A version, and the fragment that has nothing but the ledger row in it."""

    @property
    def dataset(self) -> lance.LanceDataset:
        """The table as of the last `refresh` or commit."""
        return self._dataset

    def refresh(self) -> None:
        """Look at the newest version."""
        newest: int = guarded(self.uri, getattr, self._dataset, "latest_version")
        if newest != self._dataset.version:
            self._dataset = guarded(self.uri, self._dataset.checkout_version, newest)

    def marks(self) -> Marks:
        """Each producer's highest record number in this table."""
        return dict(self._ledger()[0])

    def number(self) -> int:
        """The commit that the ledger names; only `commits` counts them."""
        return self._ledger()[1]

    def home(self) -> int:
        """The id of the fragment that holds the ledger row, the only one that commits change."""
        return int(guarded(self.uri, self._home).fragment_id)

    def write(self, rows: pa.Table) -> list[str]:
        """Write rows (of the table's schema) that `commit` may add later; what describes them, as JSON.

        Raises:
            StoreError: the store failed.
        """
        added = guarded(self.uri, self._write, rows)
        return [json.dumps(fragment.to_json()) for fragment in added]

    def commit(self, rows: pa.Table | Sequence[str], marks: Marks, number: int = 0) -> None:
        """Add `rows`, or what `write` gave for them, and raise the ledger to `marks`, in one atomic step.

        A producer's mark never goes back.

        Raises:
            CommitConflict: another commit came first; nothing was added.
            StoreError: the store failed. Whether the commit landed is told by `marks` after a `refresh`.
        """
        written = rows if isinstance(rows, Sequence) else self.write(rows) if rows.num_rows else []
        guarded(self.uri, self._commit, [FragmentMetadata.from_json(one) for one in written], marks, number)

    def rewrite(self, rows: pa.Table, gone: str, marks: Marks, number: int) -> None:
        """Put `rows` in the place of those that the condition `gone` holds for, in one atomic step; the ledger says just this afterwards.

        For tables that are made of others and may be made anew.

        Raises:
            CommitConflict: another commit came first; nothing was changed.
            StoreError: the store failed.
        """
        guarded(self.uri, self._rewrite, rows, gone, marks, number)

    def add(self, make_rows: Callable[[], pa.Table]) -> None:
        """Add rows that come from no spool. `make_rows` is asked again, for the newest state, when somebody else committed first.

        Raises:
            StoreError: the store failed, or others came first every time.
        """
        rows: pa.Table | None = None
        for _ in range(_ATTEMPTS):
            self.refresh()
            if rows is not None and self._holds(rows):
                return  # what seemed to conflict had landed: its answer was lost, and the second try met the first one
            rows = make_rows()
            try:
                self.commit(rows, {})
            except CommitConflict:
                continue
            return
        raise StoreError(f"could not write to {self.uri}: others committed first at each of {_ATTEMPTS} attempts")

    def _holds(self, rows: pa.Table) -> bool:
        """Whether the table has these rows, by the key of the first: a commit has all or none."""
        key = rows[self.spec.key][0].as_py().replace("'", "''") if rows.num_rows else ""
        return bool(key) and guarded(self.uri, self._dataset.count_rows, f"{self.spec.key} = '{key}'") > 0

    def _write(self, rows: pa.Table) -> list[FragmentMetadata]:
        # Against the table as it is now: fragments are of its fields, whatever this version's schema says.
        return list(write_fragments(rows, self._dataset, schema=self.spec.schema, storage_options=self._options))

    def _commit(self, added: list[FragmentMetadata], marks: Marks, number: int) -> None:
        dataset = self._dataset
        before, count = self._ledger()
        highest = before | {producer: max(mark, before.get(producer, 0)) for producer, mark in marks.items()}
        count = max(count, number)
        removed, updated = self._without_ledger()
        self._replace(removed, updated, added, ledger_row(self.spec, highest, count))
        if self._dataset.version == dataset.version + 1:  # else somebody's commit came between, of another kind
            self._known = (self._dataset.version, highest, count)
            # New fragments are numbered in their order, and the ledger row's is the last one.
            self._at = (self._dataset.version, max(one.fragment_id for one in self._dataset.get_fragments()))

    def _rewrite(self, rows: pa.Table, gone: str, marks: Marks, number: int) -> None:
        dataset, condition = self._dataset, f"({gone}) OR {self._condition}"
        rows_gone = dataset.to_table(columns=[], filter=condition, with_row_address=True)["_rowaddr"].to_numpy()
        places = set((rows_gone >> 32).tolist())
        removed, updated = [], []
        for fragment in (one for one in dataset.get_fragments() if one.fragment_id in places):
            left = fragment.delete(condition)
            updated += [] if left is None else [left]
            removed += [fragment.fragment_id] if left is None else []
        added = self._write(rows) if rows.num_rows else []
        self._replace(removed, updated, added, ledger_row(self.spec, marks, number))
        self._known = self._at = None

    def _replace(
        self, removed: list[int], updated: list[FragmentMetadata], added: list[FragmentMetadata], ledger: pa.Table
    ) -> None:
        """One version: without the fragments `removed`, others as they are `updated`, and with `added`, last the `ledger` row."""
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed,
            updated_fragments=updated,
            new_fragments=[*added, *self._write(ledger)],
            fields_modified=[],
        )
        self._dataset = lance.LanceDataset.commit(
            self._dataset,
            operation,
            read_version=self._dataset.version,
            storage_options=self._options,
            enable_v2_manifest_paths=True,
        )

    def _without_ledger(self) -> tuple[list[int], list[FragmentMetadata]]:
        """The fragment of the ledger row: gone, when it holds nothing else; or as it is without that row."""
        if self._at is not None and self._at[0] == self._dataset.version:
            return [self._at[1]], []
        home = self._home()
        left = home.delete(self._condition)
        return ([home.fragment_id], []) if left is None else ([], [left])

    def _home(self) -> lance.LanceFragment:
        """The fragment that holds the ledger row: mostly the newest, since it comes with each commit."""
        newest = max(self._dataset.get_fragments(), key=lambda fragment: fragment.fragment_id, default=None)
        if newest is not None and self._in(newest).num_rows:
            return newest
        row = self._dataset.to_table(columns=[], filter=self._condition, with_row_address=True)
        home = self._dataset.get_fragment(int(row["_rowaddr"][0].as_py()) >> 32) if row.num_rows else None
        if home is None:
            raise StoreError(
                f"the table {self.uri} has lost its ledger row, which says how far ingest came; restore an older version of it"
            )
        return home

    def _in(self, fragment: lance.LanceFragment) -> pa.Table:
        return fragment.to_table(columns=["ledger"], filter=self._condition)

    @property
    def _condition(self) -> str:
        return f"{self.spec.key} = '{LEDGER_KEY}'"

    def _ledger(self) -> tuple[Marks, int]:
        version = self._dataset.version
        if self._known is None or self._known[0] != version:
            said = guarded(self.uri, self._read_ledger)
            self._known = (version, said["marks"], said["commit"])
        return self._known[1:]

    def _read_ledger(self) -> dict[str, Any]:
        row = self._in(self._home())
        said: dict[str, Any] = orjson.loads(row["ledger"][0].as_py())
        return said
