"""The ledger row of a table: where it lies, and what it says."""

from __future__ import annotations

from dataclasses import dataclass

import lance
import orjson
import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._tables.schema import TableSpec
from stepwell.warehouse._tables.table import LEDGER_KEY

Marks = dict[str, int]
"""By producer, the highest number of its records that is in."""


@dataclass(frozen=True, slots=True)
class Found:
    """The ledger row of one version of a table."""

    fragment: int
    alone: bool
    """Whether that fragment has nothing else in it."""
    marks: Marks
    commit: int


def is_ledger(spec: TableSpec) -> str:
    """The condition that only that row fulfils."""
    return f"{spec.key} = '{LEDGER_KEY}'"


def find(dataset: lance.LanceDataset, spec: TableSpec) -> Found:
    """Find it: mostly in the newest fragment of a single row, since it comes alone and last with each commit.

    Raises:
        StoreError: the table has none.
    """
    for fragment in sorted(dataset.get_fragments(), key=lambda one: one.fragment_id, reverse=True):
        if fragment.physical_rows == 1:
            row = fragment.to_table(columns=[spec.key, "ledger"])  # small enough to come with the file's footer
            if row[spec.key].to_pylist() == [LEDGER_KEY]:
                return _found(fragment.fragment_id, True, row)
            break
    row = dataset.to_table(columns=["ledger"], filter=is_ledger(spec), with_row_address=True)
    if not row.num_rows:
        raise StoreError(
            f"the table {dataset.uri} has lost its ledger row, which says how far ingest came; restore an older version of it"
        )
    return _found(int(row["_rowaddr"][0].as_py()) >> 32, False, row)


def _found(fragment: int, alone: bool, row: pa.Table) -> Found:
    said = orjson.loads(row["ledger"][0].as_py())
    return Found(fragment, alone, said["marks"], said["commit"])
