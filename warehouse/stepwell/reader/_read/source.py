"""Where the tokens of steps come from: the warehouse, which has them, or a realiser, which makes them of the texts that it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.reader._arrays import I64, Array, Bools
from stepwell.reader._read.contents import ALTERED, Contents
from stepwell.reader._realise.realise import Realiser
from stepwell.reader._select.steps import Steps

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

TEXTS = ("plain_messages", "tools", "response", "status")
_IDS = ("prompt_ids", "response_ids")


class Source:
    """Steps read back in a given order, a bounded number at a time."""

    def __init__(self, warehouse: Warehouse, realiser: Realiser | None) -> None:
        self._warehouse, self._realiser = warehouse, realiser
        self.contents: Contents | None = None
        """What steps are compared with as they are read; None: with nothing."""

    def batches(self, steps: Steps, rows: I64, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These rows with `columns`, among them prompt_ids and response_ids.

        With a realiser those are made for steps that have none, and there is `places`: the position and hash of each placeholder in
        their prompts (see `Realiser.realise`), null in all other rows. With `contents` there is `ALTERED`.

        Raises:
            StoreError: a step is gone, or cannot be restored.
        """
        columns = [*columns, *([] if self.contents is None else [ALTERED])]
        if self._realiser is None or not steps.realised[rows].any():
            yield from self._restored(steps, rows, columns)
            return
        wanted = list(dict.fromkeys([*columns, *TEXTS]))
        for batch in self._restored(steps, rows, wanted):
            yield _with_ids(batch, columns, self._realiser)

    def _restored(self, steps: Steps, rows: I64, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self.contents is None:
            yield from self._warehouse.restored(_named(steps, rows), columns)
        else:
            yield from self.contents.compared(self._warehouse, _named(steps, rows), rows, columns)

    def realised(self, steps: Steps, rows: I64, realiser: Realiser) -> Iterator[pa.Table]:
        """What a realiser makes of these rows, which have no ids. Raises StoreError as `batches` does."""
        for batch in self._warehouse.restored(_named(steps, rows), TEXTS):
            yield realised(batch, realiser)


def realised(texts: pa.RecordBatch, realiser: Realiser) -> pa.Table:
    """The realiser's table for a batch with the columns `TEXTS`. Whether the steps may train has been looked at before."""
    count = texts.num_rows
    columns = {"messages": texts["plain_messages"], **{name: texts[name] for name in TEXTS[1:]}}
    nothing = pa.nulls(count, pa.string())
    return realiser.realise(pa.table({"step_id": nothing, **columns, "untrainable_reason": nothing}))


def _named(steps: Steps, rows: I64) -> pa.Table:
    return pa.table(
        {
            "step_id": steps.step_id.take(pa.array(rows)),
            "trajectory_id": steps.trajectories.names.take(pa.array(steps.trajectory[rows])),
        }
    )


def _with_ids(batch: pa.RecordBatch, columns: Sequence[str], realiser: Realiser) -> pa.RecordBatch:
    without: Array = batch["response_ids"].is_null().to_numpy(zero_copy_only=False)
    made = realised(batch.filter(pa.array(without)), realiser).combine_chunks()
    count = batch.num_rows
    # Of the stored rows and, behind those, the realised ones each row takes its own.
    place = pa.array(np.where(without, count + np.cumsum(without) - 1, np.arange(count)))
    found = {name: batch[name] for name in columns}
    for name in _IDS:
        stored = batch[name].cast(made.schema.field(name).type)
        found[name] = pa.concat_arrays([stored, *made[name].chunks]).take(place)
    none = pa.nulls(count, made.schema.field("media").type)
    places = pa.concat_arrays([none, *made["media"].chunks]).take(place)
    return pa.record_batch({**found, "places": places})


def has_gaps(masks: pa.ChunkedArray) -> Bools:
    """bool [rows] Whether some of a row's response is not generated: a row of false among others."""
    rows, flags = masks.combine_chunks(), pc.call_function("list_flatten", [masks]).to_numpy(zero_copy_only=False)
    parents = pc.call_function("list_parent_indices", [rows]).to_numpy(zero_copy_only=False)
    gaps: Bools = np.bincount(parents[~flags.astype(np.bool_)], minlength=len(rows)) > 0
    return gaps
