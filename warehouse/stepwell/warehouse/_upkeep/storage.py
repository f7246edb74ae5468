"""What a warehouse takes, table by table, and what keeps old files from going."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.maintain import size_of


def storage(tables: Mapping[str, LedgerTable]) -> list[dict[str, Any]]:
    """By table: `rows`, `bytes` of all files in its place, `fragments`, `version` (the newest), `versions` that can still be read,
    `indices`, and `pins`: tags, each with its version.

    Lists files, which on a bucket takes a request for each thousand.

    Raises:
        StoreError: the store failed.
    """
    return [guarded(table.uri, _of, name, table) for name, table in tables.items()]


def _of(name: str, table: LedgerTable) -> dict[str, Any]:
    table.refresh()
    dataset = table.dataset
    tags = dataset.tags.list()
    return {
        "table": name,
        "rows": max(dataset.count_rows() - 1, 0),  # without its ledger row
        "bytes": size_of(dataset),
        "fragments": len(dataset.get_fragments()),
        "version": dataset.version,
        "versions": len(dataset.versions()),
        "indices": sorted(field for index in dataset.describe_indices() for field in index.field_names),
        "pins": [{"tag": tag, "version": said["version"]} for tag, said in sorted(tags.items())],
    }
