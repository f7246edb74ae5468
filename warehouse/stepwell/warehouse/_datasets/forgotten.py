"""What a dataset says of itself when some of it was forgotten."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import orjson

from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded

NOTED = "forgotten"
"""Where it stands in a dataset's lineage: numbers of steps and of the other trajectories of its groups, and the last run that took any."""

_GONE = "[forgotten]"
"""Stands where a filter or a note named what was forgotten."""


def incomplete(lineage: Mapping[str, Any]) -> str | None:
    """What to say of a dataset of this lineage; None when nothing of it was forgotten."""
    noted = lineage.get(NOTED)
    if noted is None:
        return None
    peers = f" and {noted['peers']} trajectories of its groups" if noted["peers"] else ""
    return f"incomplete, {noted['steps']} steps{peers} forgotten"


def mark(table: LedgerTable, touched: Mapping[str, tuple[int, int]], ids: Collection[str], run: str) -> list[str]:
    """Note in the registry what the datasets of these ids lose, and take forgotten ids out of what all of them say; who was touched.

    `run` names the forgetting: what it has noted already, before it was interrupted, is not noted again.

    Raises:
        StoreError: the store failed, or others changed the registry every time.
    """
    rows = _rows(table, "fingerprint IS NOT NULL")
    for row in rows:
        if _change(row, touched.get(row["dataset_id"]), ids, run):
            again(table, partial(_note, table, row["dataset_id"], touched, ids, run))
    return sorted(f"{row['name']}@{row['version']}" for row in rows if row["dataset_id"] in touched)


def _note(
    table: LedgerTable, dataset_id: str, touched: Mapping[str, tuple[int, int]], ids: Collection[str], run: str
) -> None:
    """One dataset, as its row is now."""
    where = f"dataset_id = '{dataset_id}'"
    for row in _rows(table, where):
        if change := _change(row, touched.get(dataset_id), ids, run):
            guarded(table.uri, table.dataset.update, change, where=where)


def _change(row: Mapping[str, Any], lost: tuple[int, int] | None, ids: Collection[str], run: str) -> dict[str, str]:
    """By column, the SQL of what the row is to say."""
    change: dict[str, str] = {}
    lineage = orjson.loads(row["lineage"] or "{}")
    before = lineage.get(NOTED, {"steps": 0, "peers": 0})
    if lost is not None and before.get("run") != run:
        lineage[NOTED] = {"steps": before["steps"] + lost[0], "peers": before["peers"] + lost[1], "run": run}
        change["lineage"] = _quoted(orjson.dumps(lineage).decode())
        change["pinned"] = "false"  # its tags hold what goes, and go as well
    for column in ("filter", "note"):
        text = row[column]
        for id_ in ids if text else ():
            text = text.replace(id_, _GONE)
        if text != row[column]:
            change[column] = _quoted(text)
    return change


def _rows(table: LedgerTable, where: str) -> list[dict[str, Any]]:
    table.refresh()
    columns = ["dataset_id", "name", "version", "filter", "note", "lineage"]
    found: list[dict[str, Any]] = guarded(table.uri, table.dataset.to_table, columns, where).to_pylist()
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
