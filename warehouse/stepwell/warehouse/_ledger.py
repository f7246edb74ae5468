"""One table, committed exactly once.

A bare append that is repeated, or that a paused process resumes, doubles its rows: Lance rebases it silently. So every commit also
replaces the table's one *ledger row*, which holds each producer's high-water mark: it deletes the old one by deletion vector and adds
a new one. A commit that is stale or repeated then touches a row that is gone, and conflicts instead of landing. Compaction may
move the ledger row between data rows; it is found by its key, never by its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import lance
import orjson
import pyarrow as pa
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._schema import SCHEMA_VERSION, STORAGE_VERSION, TableSpec

LEDGER_KEY = "__ledger__"
_ATTEMPTS = 20

Marks = dict[str, int]


class LedgerTable:
    """A Lance table of one `TableSpec`, opened or created."""

    def __init__(
        self, spec: TableSpec, root: str, storage_options: Mapping[str, str] | None = None, *, create: bool = True
    ) -> None:
        """Open the table under `root`, creating it when it is missing and `create` says so.

        Raises:
            StoreError: the store cannot be read or written, the table is missing, or of a newer schema.
        """
        self.spec = spec
        self.uri = f"{root.rstrip('/')}/{spec.name}.lance"
        self._options = dict(storage_options or {})
        self._dataset = self._open() or self._create(root, allowed=create)
        self._check_schema()
        if create:
            _guarded(self.uri, self._add_columns)

    @property
    def dataset(self) -> lance.LanceDataset:
        """The table as of the last `refresh` or commit."""
        return self._dataset

    def refresh(self) -> None:
        """Look at the newest version."""
        self._dataset = _guarded(self.uri, self._dataset.checkout_version, self._dataset.latest_version)

    def marks(self) -> Marks:
        """Each producer's highest record number in this table."""
        return cast("tuple[Any, Marks]", _guarded(self.uri, self._ledger, self.dataset))[1]

    def commit(self, rows: pa.Table, marks: Marks) -> None:
        """Add `rows` (of the table's schema) and raise the ledger to `marks`, in one atomic step.

        A producer's mark never goes back: an interrupted round may have brought more into this table than the round after it reads.

        Raises:
            CommitConflict: another commit came first; nothing was written.
            StoreError: the store failed. Whether the commit landed is told by `marks` after a `refresh`.
        """
        _guarded(self.uri, self._commit, rows, marks)

    def add(self, make_rows: Callable[[], pa.Table]) -> None:
        """Add rows that come from no spool. `make_rows` is asked again, for the newest state, when somebody else committed first.

        Raises:
            StoreError: the store failed, or others came first every time.
        """
        for _ in range(_ATTEMPTS):
            self.refresh()
            try:
                self.commit(make_rows(), self.marks())
            except CommitConflict:
                continue
            return
        raise StoreError(f"could not write to {self.uri}: others committed first at each of {_ATTEMPTS} attempts")

    def _commit(self, rows: pa.Table, marks: Marks) -> None:
        dataset = self.dataset
        home, before = self._ledger(dataset)
        highest = before | {producer: max(mark, before.get(producer, 0)) for producer, mark in marks.items()}
        ledger = pa.Table.from_pylist(
            [{self.spec.key: LEDGER_KEY, "ledger": orjson.dumps(highest).decode()}], schema=self.spec.schema
        )
        whole = pa.concat_tables([rows, ledger])
        added = write_fragments(whole, dataset, schema=self.spec.schema, storage_options=self._options)
        left = home.delete(self._condition)
        # Gone with the ledger row when it held nothing else.
        removed, updated = ([home.fragment_id], []) if left is None else ([], [left])
        operation = lance.LanceOperation.Update(
            removed_fragment_ids=removed, updated_fragments=updated, new_fragments=added, fields_modified=[]
        )
        self._dataset = lance.LanceDataset.commit(
            self.uri,
            operation,
            read_version=dataset.version,
            storage_options=self._options,
            enable_v2_manifest_paths=True,
        )

    @property
    def _condition(self) -> str:
        return f"{self.spec.key} = '{LEDGER_KEY}'"

    def _ledger(self, dataset: lance.LanceDataset) -> tuple[lance.LanceFragment, Marks]:
        """The fragment that holds the ledger row, and the marks in it."""
        for fragment in reversed(dataset.get_fragments()):  # it came with the last commit, unless compaction moved it
            row = fragment.to_table(columns=["ledger"], filter=self._condition)
            if row.num_rows:
                return fragment, orjson.loads(row["ledger"][0].as_py())
        raise StoreError(
            f"the table {self.uri} has lost its ledger row, which says how far ingest came; restore an older version of it"
        )

    def _open(self) -> lance.LanceDataset | None:
        try:
            return lance.dataset(self.uri, storage_options=self._options)
        except ValueError as error:
            if "not found" in str(error).lower():
                return None
            raise StoreError(f"cannot open the table {self.uri}: {_first_line(error)}") from error
        except OSError as error:
            raise StoreError(f"cannot reach the store of {self.uri}: {_first_line(error)}") from error

    def _create(self, root: str, *, allowed: bool) -> lance.LanceDataset:
        if not allowed:
            raise StoreError(f"there is no table {self.uri}; `stepwell up` or `stepwell demo` makes a warehouse")
        import lancedb  # seconds of imports, needed once in a warehouse's life

        empty = pa.Table.from_pylist([{self.spec.key: LEDGER_KEY, "ledger": "{}"}], schema=self.spec.schema)
        options = {
            **self._options,
            "new_table_enable_stable_row_ids": "true",  # cannot be switched on later
            "new_table_data_storage_version": STORAGE_VERSION,
        }
        try:
            lancedb.connect(root, storage_options=self._options).create_table(
                self.spec.name, data=empty, schema=self.spec.schema, exist_ok=True, storage_options=options
            )
        except (OSError, RuntimeError, ValueError) as error:
            # Another process may have created it in the same moment; then it is simply there.
            if (made := self._open()) is not None:
                return made
            raise StoreError(f"cannot create the table {self.uri}: {_first_line(error)}") from error
        dataset = self._open()
        if dataset is None:
            raise StoreError(
                f"the table {self.uri} was created and is not there; does the store keep what it acknowledges?"
            )
        return dataset

    def _check_schema(self) -> None:
        metadata = self.dataset.schema.metadata or {}
        version = int(metadata.get(b"stepwell:schema", b"0"))
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"the table {self.uri} has schema {version}, this version reads up to {SCHEMA_VERSION}: upgrade Stepwell"
            )

    def _add_columns(self) -> None:
        """Columns that the table was made without: null in the rows that are there."""
        missing = [field for field in self.spec.schema if field.name not in self.dataset.schema.names]
        if not missing:
            return
        try:
            self.dataset.add_columns(missing)
        except (OSError, RuntimeError, ValueError):
            self.refresh()  # somebody else may have added them in the same moment
            if any(field.name not in self.dataset.schema.names for field in missing):
                raise
        self.refresh()


def _guarded(uri: str, call: Callable[..., Any], *values: Any) -> Any:
    """Lance raises OSError for the store and for conflicts alike, RuntimeError for some; sort them out in one place."""
    try:
        return call(*values)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, CommitConflictError):
            raise CommitConflict(f"another process committed to {uri} first") from error
        raise StoreError(f"the store failed on {uri}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """The message without the places in Lance's sources that it drags along."""
    return re.sub(r", \S+\.rs:\d+.*", "", str(error), flags=re.DOTALL).splitlines()[0][:300]
