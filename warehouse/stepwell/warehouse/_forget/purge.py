"""What a plan says, carried out: rows changed and deleted, their bytes written over or removed, payloads last."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from stepwell.warehouse._forget import tables as purging
from stepwell.warehouse._forget.litter import Litter
from stepwell.warehouse._forget.plan import Plan
from stepwell.warehouse._forget.tables import Purged
from stepwell.warehouse._tables.schema import TRAJECTORIES
from stepwell.warehouse._upkeep.summaries import clear
from stepwell.warehouse._upkeep.sweep import delete_rows, referenced
from stepwell.warehouse._warehouse import Warehouse


def purge(warehouse: Warehouse, made: Plan, litter: Litter, said: Purged, remember: Callable[[Plan], None]) -> None:
    """Do it, again where some of it was done. Everything that is about to be committed knows of the tombstones by now.

    `remember` gets the plan with what was found out, before what that was found out from is removed.

    Raises:
        StoreError: the store failed, or others came first every time.
    """
    tables, going = warehouse.tables, purging.rows_that_go(made)
    if made.brought:
        tables["payloads"].add(lambda: pa.concat_tables(made.brought.values()))
    for rows in made.rebased:
        purging.replace(tables["steps"], rows)
    for name, ids in going.items():
        said.count(name, purging.delete(tables[name], ids))
    clear(tables)
    for name, ids in purging.naming_it(made).items():
        purging.scrub(tables[name], ids, said)
    purging.scrub(tables["datasets"], {}, said)
    # What was never committed is known by what it is about.
    going["events"]["target_id"] = made.steps | made.trajectories | made.responses
    going[TRAJECTORIES.name] = {"trajectory_id": made.trajectories}
    left = [litter.find(name, ids, said) for name, ids in going.items()]
    made.payloads = made.payloads.union(*(found.payloads for found in left))
    remember(made)
    _purge_payloads(warehouse, made, litter, said)
    for found in left:
        litter.remove(found, said)


def _purge_payloads(warehouse: Warehouse, made: Plan, litter: Litter, said: Purged) -> None:
    table, steps = warehouse.tables["payloads"], warehouse.tables["steps"]
    rows, ids = purging.payloads_of(table, made), pa.array(sorted(made.payloads), pa.string())
    # What a flush under way has put again stays, whose steps are not in the table yet. In this order: rows, marks, steps.
    marks = warehouse.marks()
    steps.refresh()
    going = set(ids.filter(pa.array(~referenced(steps, ids))).to_pylist())
    gone = [
        row["_rowid"]
        for row in rows
        if row["payload_id"] in going and (row["sequence"] or 0) <= marks.get(row["producer"], 0)
    ]
    delete_rows(table, np.array(gone, np.uint64))
    said.count("payloads", len(gone))
    purging.scrub(table, {"payload_id": going}, said)
    litter.remove(litter.find("payloads", {"payload_id": going}, said), said)
