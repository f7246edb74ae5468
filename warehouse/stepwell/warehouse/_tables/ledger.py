"""One table, committed exactly once.

A bare append that is repeated, or that a paused process resumes, doubles its rows: Lance rebases it silently. So every commit also
replaces the table's one *ledger row*, which holds each producer's high-water mark: it deletes the old one by deletion vector and adds
a new one. A commit that is stale or repeated then touches a row that is gone, and conflicts instead of landing. Our own compaction
leaves the row's fragment alone (`_upkeep/compact`), so that it goes on beside commits. One made with plain Lance may put the row among
data, and nothing breaks: the row is known by its key (`ledger_row`), and its fragment goes only when nothing else is in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
from lance.fragment import FragmentMetadata, write_fragments

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.ledger_row import Found, Marks, find, is_ledger
from stepwell.warehouse._tables.schema import TableSpec
from stepwell.warehouse._tables.table import Session, guarded, ledger_row, newest, opened, uri_of

__all__ = ["LedgerTable", "Marks", "refresh_all"]

_ATTEMPTS = 20


class LedgerTable:
    """A Lance table of one `TableSpec`, opened or created."""

    def __init__(
        self,
        spec: TableSpec,
        root: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        create: bool = True,
        session: Session | None = None,
    ) -> None:
        """Open the table under `root`, creating it when it is missing and `create` says so; `session` as in `opened`.

        Raises:
            StoreError: the store cannot be read or written, the table is missing, or of another schema.
        """
        self.spec = spec
        self.uri = uri_of(spec, root)
        self._options = storage_options or {}
        self._dataset = opened(spec, root, self._options, create=create, session=session)
        self._known: tuple[int, Found] | None = None
        """A version, and its ledger row."""
        self._ready: tuple[Marks, int, list[FragmentMetadata]] | None = None
        """A ledger row that is written, and what it says."""

    @property
    def dataset(self) -> lance.LanceDataset:
        """The table as of the last `refresh` or commit."""
        return self._dataset

    def refresh(self) -> None:
        """Look at the newest version."""
        self._dataset = guarded(self.uri, newest, self._dataset, self._options)

    def marks(self) -> Marks:
        """Each producer's highest record number in this table."""
        return dict(self._ledger().marks)

    def number(self) -> int:
        """The commit that the ledger names; only `commits` counts them."""
        return self._ledger().commit

    def home(self) -> int:
        """The id of the fragment that holds the ledger row, the only one that commits change."""
        return self._ledger().fragment

    def write(self, rows: pa.Table) -> list[str]:
        """Write rows (of the table's schema) that `commit` may add later; what describes them, as JSON.

        Raises:
            StoreError: the store failed.
        """
        added = guarded(self.uri, self._write, rows)
        return [json.dumps(fragment.to_json()) for fragment in added]

    def prepare(self, marks: Marks, number: int = 0) -> None:
        """Write the ledger row that `commit` of the same is going to need; several tables at once, this saves each commit a request.

        Raises:
            StoreError: the store failed.
        """
        highest, count = self._raised(marks, number)
        self._ready = (highest, count, guarded(self.uri, self._write, ledger_row(self.spec, highest, count)))

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
        return list(write_fragments(rows, self._dataset, schema=self.spec.schema))

    def _raised(self, marks: Marks, number: int) -> tuple[Marks, int]:
        """What the ledger says after a commit of these."""
        now = self._ledger()
        raised = {producer: max(mark, now.marks.get(producer, 0)) for producer, mark in marks.items()}
        return now.marks | raised, max(now.commit, number)

    def _commit(self, added: list[FragmentMetadata], marks: Marks, number: int) -> None:
        before, home = self._dataset.version, self._ledger()
        highest, count = self._raised(marks, number)
        if self._ready is None or self._ready[:2] != (highest, count):
            self.prepare(marks, number)
        ledger, self._ready = self._ready[2] if self._ready else [], None
        held = None if home.alone else self._dataset.get_fragment(home.fragment)
        left = None if held is None else held.delete(is_ledger(self.spec))
        self._replace([home.fragment] if left is None else [], [] if left is None else [left], [*added, *ledger])
        if self._dataset.version == before + 1:  # else somebody's commit came between, of another kind
            # New fragments are numbered in their order, and the ledger row's is the last one.
            last = max(one.fragment_id for one in self._dataset.get_fragments())
            self._known = (self._dataset.version, Found(last, True, highest, count))

    def _rewrite(self, rows: pa.Table, gone: str, marks: Marks, number: int) -> None:
        dataset, condition = self._dataset, f"({gone}) OR {is_ledger(self.spec)}"
        rows_gone = dataset.to_table(columns=[], filter=condition, with_row_address=True)["_rowaddr"].to_numpy()
        places = set((rows_gone >> 32).tolist())
        removed, updated = [], []
        for fragment in (one for one in dataset.get_fragments() if one.fragment_id in places):
            left = fragment.delete(condition)
            updated += [] if left is None else [left]
            removed += [fragment.fragment_id] if left is None else []
        added = self._write(rows) if rows.num_rows else []
        self._replace(removed, updated, [*added, *self._write(ledger_row(self.spec, marks, number))])
        self._known = None

    def _replace(self, removed: list[int], updated: list[FragmentMetadata], added: list[FragmentMetadata]) -> None:
        """One version: without the fragments `removed`, others as they are `updated`, and with `added`, the ledger's last."""
        self._dataset = lance.LanceDataset.commit(
            self._dataset,
            lance.LanceOperation.Update(
                removed_fragment_ids=removed, updated_fragments=updated, new_fragments=added, fields_modified=[]
            ),
            read_version=self._dataset.version,
            enable_v2_manifest_paths=True,
        )

    def _ledger(self) -> Found:
        version = self._dataset.version
        if self._known is None or self._known[0] != version:
            self._known = (version, guarded(self.uri, find, self._dataset, self.spec))
        return self._known[1]


def refresh_all(tables: Iterable[LedgerTable]) -> None:
    """Look at the newest version of each; where that is far away, of all at the same time.

    Raises:
        StoreError: the store failed.
    """
    wanted = list(tables)
    if len(wanted) < 2 or "://" not in wanted[0].uri:
        for table in wanted:
            table.refresh()
        return
    with ThreadPoolExecutor(len(wanted)) as pool:
        list(pool.map(LedgerTable.refresh, wanted))
