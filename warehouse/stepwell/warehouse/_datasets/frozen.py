"""What a dataset freezes: the selected steps in order with what was resolved about them, and the rewards of the rest of their groups."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._datasets.registry import Dataset
from stepwell.warehouse._encode.content import hashes_of
from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import DATASET_ROWS
from stepwell.warehouse._tables.table import guarded

RESOLVED = (
    *("prompt_id", "group_id", "split", "policy_version", "step_reward", "trajectory_reward"),
    *("labels", "trajectory_labels"),
)
ROW_COLUMNS = ("step_id", "trajectory_id", "content_hash", *RESOLVED)
PEER_COLUMNS = ("trajectory_id", "prompt_id", "group_id", "split", "trajectory_reward")


def peers_sql(where: str) -> str:
    """The query for the peers of the steps that a condition selects."""
    selected = f"FROM steps WHERE {where}"
    return (
        f"SELECT {', '.join(PEER_COLUMNS)} FROM trajectories WHERE trajectory_reward IS NOT NULL "
        f"AND group_id IN (SELECT group_id {selected}) AND trajectory_id NOT IN (SELECT trajectory_id {selected}) "
        "ORDER BY group_id, trajectory_id"
    )


def write(table: LedgerTable, dataset_id: str, rows: pa.Table, peers: pa.Table) -> None:
    """Store the rows of a dataset (`ROW_COLUMNS`) and its peers (`PEER_COLUMNS`), in this order."""
    both = pa.concat_tables([rows, peers], promote_options="permissive")
    count = both.num_rows
    columns = {
        **{name: both[name] for name in both.column_names},
        "row_id": pa.array([f"{dataset_id}.{place}" for place in range(count)]),
        "dataset_id": pa.repeat(dataset_id, count),
        "position": pa.array(range(count), pa.int64()),
    }
    schema = DATASET_ROWS.schema
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    made = pa.Table.from_arrays(arrays, schema=schema)
    table.add(lambda: made)


def rows_of(table: LedgerTable, dataset: Dataset) -> pa.Table:
    """The frozen rows: `ROW_COLUMNS`, in order."""
    return _read(table, dataset, "step_id IS NOT NULL", ROW_COLUMNS)


def peers_of(table: LedgerTable, dataset: Dataset) -> pa.Table:
    """The frozen peers: `PEER_COLUMNS`."""
    return _read(table, dataset, "step_id IS NULL", PEER_COLUMNS)


def count(table: LedgerTable, dataset_id: str) -> int:
    """How many rows a dataset has, peers among them. Raises StoreError when the store failed."""
    table.refresh()
    found: int = guarded(table.uri, table.dataset.count_rows, _of(dataset_id))
    return found


def remove(table: LedgerTable, dataset_id: str) -> bool:
    """Delete the rows of a dataset that is not in the registry; whether there were any.

    Raises:
        StoreError: the store failed, or others changed the same rows every time.
    """
    if not count(table, dataset_id):
        return False
    again(table, lambda: guarded(table.uri, table.dataset.delete, _of(dataset_id)))
    return True


def fingerprint(rows: pa.Table, peers: pa.Table) -> str:
    """SHA-256 over each row's ids, content hash, rewards and labels, in order, and over the peers' rewards."""
    digest = hashlib.sha256(b"stepwell dataset 2\n")
    for table, columns in ((rows, ROW_COLUMNS), (peers, PEER_COLUMNS)):
        digest.update(struct.pack("<q", table.num_rows))
        for row in zip(*(table[name].to_pylist() for name in columns), strict=True):
            digest.update(b"".join(_encoded(value) for value in row))
    return digest.hexdigest()


def verify(dataset: Dataset, rows: pa.Table, steps: pa.Table) -> None:
    """Whether the content of whole `steps` is what was frozen of them in `rows`.

    Raises:
        StoreError: it is not.
    """
    ids, frozen = rows["step_id"].to_pylist(), rows["content_hash"].to_pylist()
    wrong = [step for step, now, then in zip(ids, hashes_of(steps), frozen, strict=True) if now != then]
    if wrong:
        what = f"the content of {len(wrong)} of {len(ids)} steps is not what was frozen"
        raise StoreError(f"dataset {dataset.label}: {what}, first {wrong[0]}")


def _of(dataset_id: str) -> str:
    return f"dataset_id = '{dataset_id}'"


def _read(table: LedgerTable, dataset: Dataset, condition: str, columns: Iterable[str]) -> pa.Table:
    table.refresh()
    found = guarded(table.uri, table.dataset.to_table, filter=f"{_of(dataset.dataset_id)} AND {condition}")
    return found.sort_by("position").select(list(columns))


def _encoded(value: Any) -> bytes:
    """A value with its kind and length before it, so that no two rows of values are encoded alike."""
    if isinstance(value, list):
        parts = b"".join(_encoded(part) for part in value)
        return struct.pack("<bI", 2, len(value)) + parts
    text = struct.pack("<d", value) if isinstance(value, float) else b"" if value is None else str(value).encode()
    return struct.pack("<bI", value is not None, len(text)) + text
