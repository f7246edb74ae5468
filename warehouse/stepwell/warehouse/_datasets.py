"""Datasets: frozen, versioned selections with the values that were resolved when they were made.

A dataset is an ordered list of steps with their rewards and content hashes. Steps never change, so nothing has to be pinned: reading
it later gives the same bytes, whatever was written, compacted or cleaned up since, and its fingerprint can prove it.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime

import pyarrow as pa

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse._content import hashes_of
from stepwell.warehouse._ledger import LedgerTable
from stepwell.warehouse._read import by_id
from stepwell.warehouse._schema import DATASET_ROWS, DATASETS
from stepwell.warehouse._views import TRAINING_ORDER

_RESOLVED = ("prompt_id", "group_id", "split", "policy_version", "step_reward", "trajectory_reward")
_ROW_COLUMNS = ("step_id", "trajectory_id", "content_hash", *_RESOLVED)
_PEER_COLUMNS = ("trajectory_id", "prompt_id", "group_id", "split", "trajectory_reward")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A version's entry in the registry. `fingerprint` is SHA-256 over logical values, independent of layout and code."""

    name: str
    version: int
    steps: int
    filter: str
    note: str | None
    at_commit: int
    fingerprint: str
    dataset_id: str


class Datasets:
    """The datasets of a warehouse."""

    def __init__(self, tables: Mapping[str, LedgerTable], query: Callable[[str], pa.Table]) -> None:
        self._tables = tables
        self._query = query

    def create(self, name: str, where: str = "trainable AND split = 'train'", *, note: str | None = None) -> Dataset:
        """Freeze the steps that `where` selects, a condition over the view `steps`, as the next version of `name`.

        Attempts of a call of which the client used another are never among them: the policy's answer went nowhere.

        Raises:
            InvalidRecord: the name is empty or too long, or nothing is selected.
            StepwellError: the condition is no valid SQL.
        """
        if not 0 < len(name) <= 200 or "@" in name:
            raise InvalidRecord("name", "1 to 200 characters, without '@'")
        used = f"({where}\n) AND superseded_by IS NULL"
        rows = self._query(f"SELECT {', '.join(_ROW_COLUMNS)} FROM steps WHERE {used} ORDER BY {TRAINING_ORDER}")
        if not rows.num_rows:
            raise InvalidRecord("where", f"no step satisfies {where!r}: an empty dataset would train nothing")
        peers = self._all_peers(used)
        dataset_id = uuid.uuid4().hex
        self._write_rows(dataset_id, rows, peers)
        commits = self._tables["commits"].dataset.to_table(columns=["commit"], filter="ledger IS NULL")
        at_commit = max(commits["commit"].to_pylist(), default=0)
        made = Dataset(name, 0, rows.num_rows, where, note, at_commit, _fingerprint(rows, peers), dataset_id)
        return self._register(made)

    def get(self, name: str, version: int | None = None) -> Dataset:
        """One version, the newest by default. Raises StoreError when there is none."""
        found = [item for item in self.list() if item.name == name and version in (None, item.version)]
        if not found:
            wanted = name if version is None else f"{name}@{version}"
            raise StoreError(f"there is no dataset {wanted}; `select name, version from datasets` lists them")
        return max(found, key=lambda item: item.version)

    def list(self) -> list[Dataset]:
        """Every version of every dataset, by name and version."""
        table = self._tables["datasets"]
        table.refresh()
        names = [field.name for field in fields(Dataset)]
        rows = table.dataset.to_table(columns=names, filter="ledger IS NULL").to_pylist()
        return sorted((Dataset(**row) for row in rows), key=lambda item: (item.name, item.version))

    def read(self, name: str, version: int | None = None, *, verify: bool = True) -> pa.Table:
        """The dataset's steps, whole, in its order, with `step_reward` and `trajectory_reward` as they were frozen.

        Raises:
            StoreError: there is no such dataset, a step is gone, or (with `verify`) its content is not what was frozen.
        """
        dataset = self.get(name, version)
        rows = self.rows(dataset)
        if verify and _fingerprint(rows, self.peers(name, dataset.version)) != dataset.fingerprint:
            raise StoreError(
                f"the rows of dataset {dataset.name}@{dataset.version} do not give its fingerprint: they were changed"
            )
        self._tables["steps"].refresh()
        steps = by_id(self._tables["steps"].dataset, rows["step_id"].to_pylist())
        if steps.num_rows != rows.num_rows:
            missing = rows.num_rows - steps.num_rows
            raise StoreError(
                f"dataset {dataset.name}@{dataset.version}: {missing} of {rows.num_rows} steps are not in the warehouse"
            )
        if verify:
            _verify(dataset, steps, rows)
        return _with_frozen(steps, rows)

    def rows(self, dataset: Dataset) -> pa.Table:
        """The frozen rows of a version: ids, content hashes and rewards, in order."""
        return self._frozen(dataset, "step_id IS NOT NULL", _ROW_COLUMNS)

    def peers(self, name: str, version: int | None = None) -> pa.Table:
        """The rewarded trajectories of the dataset's groups of which no step was selected, with the rewards they had then.

        Baselines need them: what a filter leaves out of the loss must not move the mean of the group.
        """
        return self._frozen(self.get(name, version), "step_id IS NULL", _PEER_COLUMNS)

    def _frozen(self, dataset: Dataset, condition: str, columns: tuple[str, ...]) -> pa.Table:
        table = self._tables["dataset_rows"]
        table.refresh()
        found = table.dataset.to_table(filter=f"dataset_id = '{dataset.dataset_id}' AND {condition}")
        return found.sort_by("position").select(list(columns))

    def _all_peers(self, where: str) -> pa.Table:
        selected = f"FROM steps WHERE {where}"
        return self._query(
            f"SELECT {', '.join(_PEER_COLUMNS)} FROM trajectories WHERE trajectory_reward IS NOT NULL "
            f"AND group_id IN (SELECT group_id {selected}) AND trajectory_id NOT IN (SELECT trajectory_id {selected}) "
            "ORDER BY group_id, trajectory_id"
        )

    def _write_rows(self, dataset_id: str, rows: pa.Table, peers: pa.Table) -> None:
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
        table = pa.Table.from_arrays(arrays, schema=schema)
        self._tables["dataset_rows"].add(lambda: table)

    def _register(self, dataset: Dataset) -> Dataset:
        """The registry row comes last: rows without one belong to no dataset. A version taken meanwhile means the next one."""
        made: list[Dataset] = []

        def row() -> pa.Table:
            taken = [item.version for item in self.list() if item.name == dataset.name]
            made.append(replace(dataset, version=max(taken, default=0) + 1))
            return pa.Table.from_pylist([{**asdict(made[-1]), "created_at": datetime.now(UTC)}], schema=DATASETS.schema)

        self._tables["datasets"].add(row)
        return made[-1]


def _fingerprint(rows: pa.Table, peers: pa.Table) -> str:
    """SHA-256 over each row's ids, content hash and rewards, in order, and over the peers' rewards."""
    digest = hashlib.sha256(b"stepwell dataset 1\n")
    for table, columns in ((rows, _ROW_COLUMNS), (peers, _PEER_COLUMNS)):
        digest.update(struct.pack("<q", table.num_rows))
        for row in zip(*(table[name].to_pylist() for name in columns), strict=True):
            for value in row:
                number = isinstance(value, float)
                encoded = struct.pack("<d", value) if number else b"" if value is None else str(value).encode()
                digest.update(struct.pack("<bI", value is not None, len(encoded)) + encoded)
    return digest.hexdigest()


def _verify(dataset: Dataset, steps: pa.Table, rows: pa.Table) -> None:
    frozen = rows["content_hash"].to_pylist()
    ids = rows["step_id"].to_pylist()
    wrong = [step for step, now, then in zip(ids, hashes_of(steps), frozen, strict=True) if now != then]
    if wrong:
        raise StoreError(
            f"dataset {dataset.name}@{dataset.version}: the content of {len(wrong)} steps is not what was frozen, first {wrong[0]}"
        )


def _with_frozen(steps: pa.Table, rows: pa.Table) -> pa.Table:
    """The values that were resolved when the dataset was made, in place of what the steps themselves say."""
    for name in _RESOLVED:
        if name in steps.column_names:
            steps = steps.set_column(steps.column_names.index(name), name, rows[name])
        else:
            steps = steps.append_column(name, rows[name])
    return steps
