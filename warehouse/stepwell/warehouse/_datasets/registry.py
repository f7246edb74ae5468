"""The registry of datasets: one row per version, in the table `datasets`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import DATASETS
from stepwell.warehouse._tables.table import guarded

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Dataset:
    """A version's entry in the registry. `fingerprint` is SHA-256 over logical values, independent of layout and code."""

    name: str
    version: int
    steps: int
    filter: str
    note: str | None
    at_commit: int
    """The version of the warehouse that it was made from."""
    fingerprint: str
    pinned: bool
    created_at: datetime
    dataset_id: str

    @property
    def label(self) -> str:
        """`name@version`, as every command takes it."""
        return f"{self.name}@{self.version}"


def checked_name(name: str) -> str:
    """A name that a dataset may have: what is written before the `@`, in one line, as one sees it.

    Raises:
        InvalidRecord: it is none.
    """
    if not 0 < len(name) <= _LONGEST or "@" in name or not name.isprintable() or name != name.strip():
        raise InvalidRecord("name", f"1 to {_LONGEST} printable characters, without '@' and without blanks around them")
    return name


def reference(text: str) -> tuple[str, int | None]:
    """The name and the version in `name@version`; no version means the newest.

    Raises:
        InvalidRecord: it is neither a name nor a name with a number.
    """
    name, mark, version = text.rpartition("@")
    if not mark:
        return checked_name(text), None
    if not (version.isascii() and version.isdigit() and len(version) < 10):
        raise InvalidRecord(
            "dataset", f"{text!r:.80} is no dataset: give name@version, or a name for its newest version"
        )
    return checked_name(name), int(version)


class Registry:
    """Reads and writes the table `datasets`."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def list(self) -> list[Dataset]:
        """Every version of every dataset, by name and version."""
        names = [field.name for field in fields(Dataset)]
        found = self._rows(names, "fingerprint IS NOT NULL")
        made = [Dataset(**{**row, "pinned": bool(row["pinned"])}) for row in found]
        return sorted(made, key=lambda item: (item.name, item.version))

    def get(self, name: str, version: int | None = None) -> Dataset:
        """One version, the newest by default. Raises StoreError when there is none."""
        found = [item for item in self.list() if item.name == name and version in (None, item.version)]
        if not found:
            wanted = name if version is None else f"{name}@{version}"
            raise StoreError(f"there is no dataset {wanted}; `select name, version from datasets` lists them")
        return max(found, key=lambda item: item.version)

    def lineage(self, dataset: Dataset) -> dict[str, Any]:
        """What was noted about where a version comes from."""
        [row] = self._rows(["lineage"], f"dataset_id = '{dataset.dataset_id}'")
        noted: dict[str, Any] = orjson.loads(row["lineage"] or "{}")
        return noted

    def add(self, dataset: Dataset, lineage: Mapping[str, Any], before: Callable[[Dataset], None]) -> Dataset:
        """Register `dataset` as the next version of its name; a number that was ever given is not given again.

        `before` is called with the entry just before it is written, and again when somebody else took its number meanwhile.
        """
        made: list[Dataset] = []
        noted = orjson.dumps(lineage).decode()

        def row() -> pa.Table:
            taken = [
                row["version"]
                for row in self._rows(["name", "version"], "ledger IS NULL")
                if row["name"] == dataset.name
            ]
            made.append(replace(dataset, version=max(taken, default=0) + 1, created_at=datetime.now(UTC)))
            before(made[-1])
            return pa.Table.from_pylist([{**asdict(made[-1]), "lineage": noted}], schema=DATASETS.schema)

        self._table.add(row)
        return made[-1]

    def remove(self, dataset: Dataset) -> None:
        """Take a version out of the registry. What is left of its row keeps the number from being given again.

        Raises:
            StoreError: the store failed, or others changed the registry every time.
        """
        table = self._table
        nothing: dict[str, str] = dict.fromkeys(("fingerprint", "filter", "note", "lineage"), "CAST(NULL AS STRING)")
        where = f"dataset_id = '{dataset.dataset_id}'"
        again(table, lambda: guarded(table.uri, table.dataset.update, nothing, where=where))

    def removed(self, name: str, version: int) -> Dataset | None:
        """What is left of a version that `remove` took out, with an empty fingerprint; None where there is no such one."""
        left = [field.name for field in fields(Dataset) if field.name not in ("fingerprint", "filter", "note")]
        for row in self._rows(left, "fingerprint IS NULL AND ledger IS NULL"):
            if (row["name"], row["version"]) == (name, version):
                return Dataset(**{**row, "pinned": bool(row["pinned"])}, fingerprint="", filter="", note=None)
        return None

    def _rows(self, columns: Sequence[str], condition: str) -> Sequence[dict[str, Any]]:
        self._table.refresh()
        found = guarded(self._table.uri, self._table.dataset.to_table, columns=[*columns], filter=condition)
        rows: Sequence[dict[str, Any]] = found.to_pylist()
        return rows
