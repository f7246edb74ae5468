"""What a dataset says of itself when some of it was forgotten."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded

NOTED = "forgotten"
"""Where it stands in a dataset's lineage: numbers of steps, and of the other trajectories of its groups."""

_GONE = "[forgotten]"
"""Stands where a filter or a note named what was forgotten."""


def incomplete(lineage: Mapping[str, Any]) -> str | None:
    """What to say of a dataset of this lineage; None when nothing of it was forgotten."""
    noted = lineage.get(NOTED)
    if noted is None:
        return None
    peers = f" and {noted['peers']} trajectories of its groups" if noted["peers"] else ""
    return f"incomplete, {noted['steps']} steps{peers} forgotten"


def mark(table: LedgerTable, touched: Mapping[str, tuple[int, int]], ids: Collection[str]) -> list[str]:
    """Note in the registry what the datasets of these ids lose, and take forgotten ids out of what all of them say; who was touched."""
    table.refresh()
    rows = table.dataset.to_table(
        columns=["dataset_id", "name", "version", "filter", "note", "lineage"], filter="fingerprint IS NOT NULL"
    ).to_pylist()
    labels = []
    for row in rows:
        change: dict[str, str] = {}
        pinned: dict[str, str] = {}
        if row["dataset_id"] in touched:
            labels.append(f"{row['name']}@{row['version']}")
            lineage = orjson.loads(row["lineage"] or "{}")
            before = lineage.get(NOTED, {"steps": 0, "peers": 0})
            steps, peers = touched[row["dataset_id"]]
            lineage[NOTED] = {"steps": before["steps"] + steps, "peers": before["peers"] + peers}
            change["lineage"] = orjson.dumps(lineage).decode()
            pinned = {"pinned": "false"}  # its tags hold what goes, and go as well
        for column in ("filter", "note"):
            text = row[column]
            for id_ in ids if text else ():
                text = text.replace(id_, _GONE)
            if text != row[column]:
                change[column] = text
        if change:
            quoted = {column: "'" + text.replace("'", "''") + "'" for column, text in change.items()}
            guarded(table.uri, table.dataset.update, quoted | pinned, where=f"dataset_id = '{row['dataset_id']}'")
            table.refresh()
    return sorted(labels)
