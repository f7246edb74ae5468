"""Whether steps are what was stored: each is compared with the hash of its content, that is its ids, its logprobs and its texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from stepwell.reader._arrays import I64
from stepwell.reader._select.facts import Selection
from stepwell.reader._select.steps import Steps

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

ALTERED = "altered"
"""A column: bool, true where the content is another one."""


class Contents:
    """The hashes to compare with: those that a dataset froze, or else those that steps came with."""

    def __init__(self, warehouse: Warehouse, selection: Selection, steps: Steps) -> None:
        self._frozen: pa.Array | None = None
        if selection.frozen is not None:
            rows = warehouse.query(f"SELECT step_id, content_hash FROM {selection.frozen}", at=selection.at)
            among = pc.SetLookupOptions(value_set=rows["step_id"].combine_chunks())
            place = pc.call_function("index_in", [steps.step_id], among)
            self._frozen = rows["content_hash"].combine_chunks().take(place)

    def compared(
        self, warehouse: Warehouse, named: pa.Table, rows: I64, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """What `Warehouse.restored` gives of the `named` steps, which are these rows of the selection; and the column `ALTERED`."""
        wanted, done = [name for name in columns if name != ALTERED], 0
        for batch in warehouse.restored(named, [*wanted, "content_hash"], hashed=True):
            was = batch["content_hash"]
            if self._frozen is not None:
                was = self._frozen.take(pa.array(rows[done : done + batch.num_rows]))
            same = pc.fill_null(pc.call_function("equal", [batch["content"], was]), False)
            done += batch.num_rows
            made = {name: batch[name] for name in wanted}
            yield pa.record_batch({**made, ALTERED: pc.call_function("invert", [same])})
