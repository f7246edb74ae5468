"""How far tables came beyond what is committed: with commits that died in the middle, and with flushes that nobody remembers."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.warehouse._tables.ledger import Marks
from stepwell.warehouse._tables.schema import FACTS
from stepwell.warehouse._warehouse import Warehouse


def table_marks(warehouse: Warehouse) -> list[Marks]:
    """The marks of each table of facts, as it is now.

    Raises:
        StoreError: the store cannot be read.
    """
    tables = [warehouse.tables[spec.name] for spec in FACTS]
    for table in tables:
        table.refresh()
    return [table.marks() for table in tables]


def ends_beyond(committed: Marks, found: Iterable[Marks]) -> dict[str, list[int]]:
    """By producer, the records beyond `committed` up to which some table has everything, lowest first.

    A flush that reached across such a record would double the rows up to it. `committed` is to be read after `found`.
    """
    ends: dict[str, set[int]] = {}
    for producer, mark in (item for marks in found for item in marks.items()):
        if mark > committed.get(producer, 0):
            ends.setdefault(producer, set()).add(mark)
    return {producer: sorted(marks) for producer, marks in ends.items()}
