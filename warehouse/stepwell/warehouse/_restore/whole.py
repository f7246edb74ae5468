"""Whole prompts from stored differences. Nothing outside this package knows that they were ever taken apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, MutableMapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.errors import StoreError
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._restore.bases import BASES_NEEDED, Bases, Broken, Places, pieces
from stepwell.warehouse._restore.ids import IDS_NEEDED, whole_prompts
from stepwell.warehouse._restore.texts import TEXTS_NEEDED, Texts

ENCODED = (
    *("base_id", "base_depth", "prompt_ops", "prompt_suffix", "messages_ops", "messages_suffix"),
    *("tools", "payload_ids"),
)
"""The columns that exist for storage only."""

WHOLE = ("prompt_ids", "messages", "tools")
"""What they are restored to: int32 list; JSON text; JSON text. Null where the step has none."""

BATCH_BYTES = 16 << 20
"""What one batch of whole steps weighs, about: little enough for the allocator to use the memory of the last one again."""


def needed(columns: Collection[str]) -> list[str]:
    """The stored columns that it takes to restore those of `columns` that are not stored whole."""
    names = [*BASES_NEEDED, *(IDS_NEEDED if "prompt_ids" in columns else ())]
    for name, behind in TEXTS_NEEDED.items():
        names += behind if name in columns else ()
    return list(dict.fromkeys(names))


def restore(
    steps: pa.Table,
    columns: Collection[str] = WHOLE,
    payloads: Lookup | None = None,
    broken: Broken | None = None,
) -> pa.Table:
    """`steps` with its encoded columns replaced by those of `WHOLE` that are among `columns`; `response` is whole, too.

    `steps` holds every base that its rows refer to, directly or not, in any order, with the columns that `needed` names. What cannot
    be restored is null and gets its reason in `broken`, by row.

    Raises:
        StoreError: without `broken`, where a base or a payload is missing or does not fit.
    """
    reasons: Broken = {} if broken is None else broken
    bases = Bases(steps)
    kept = steps.select([name for name in steps.column_names if name not in ENCODED])
    names = {"response", "messages", "tools"}.intersection({*columns, *kept.column_names})
    texts = Texts(bases, payloads, reasons) if names else None
    if texts is not None and "response" in kept.column_names:
        kept = kept.set_column(kept.column_names.index("response"), "response", texts.responses())
    if "prompt_ids" in columns:
        kept = kept.append_column("prompt_ids", whole_prompts(bases, reasons))
    if texts is not None and "messages" in columns:
        kept = kept.append_column("messages", texts.messages())
    if texts is not None and "tools" in columns:
        kept = kept.append_column("tools", texts.tools())
    if reasons and broken is None:
        raise StoreError(reasons[min(reasons)])
    return kept


def restore_some(
    steps: pa.Table,
    wanted: NDArray[np.bool_],
    columns: Collection[str] = WHOLE,
    payloads: Lookup | None = None,
    broken: MutableMapping[str, str] | None = None,
) -> pa.Table:
    """The rows of `steps` where `wanted` (bool [rows]) is true, whole. Of the others only what those refer to is restored.

    What cannot be restored is left out where there is `broken`, which gets its id and the reason.

    Raises:
        StoreError: without `broken`, where one of the wanted rows cannot be restored.
    """
    used = Bases(steps).chain(wanted)
    reasons: Broken = {}
    whole = restore(_rows(steps, used), columns, payloads, reasons)
    asked = wanted[used]
    for row in sorted(reasons):
        if asked[row]:
            if broken is None:
                raise StoreError(reasons[row])
            broken[whole["step_id"][row].as_py()] = reasons[row]
            asked[row] = False
    return _rows(whole, asked)


def _rows(table: pa.Table, kept: NDArray[np.bool_]) -> pa.Table:
    """Filtering copies, even where it keeps all."""
    return table if kept.all() else table.filter(pa.array(kept))


def restore_batches(
    steps: pa.Table,
    columns: Collection[str] = WHOLE,
    payloads: Lookup | None = None,
    *,
    wanted: pa.Array | None = None,
    broken: MutableMapping[str, str] | None = None,
    max_bytes: int = BATCH_BYTES,
) -> Iterator[pa.Table]:
    """`steps`, with the rows of a trajectory behind each other, restored a few trajectories at a time.

    A batch weighs about `max_bytes` without its payloads, or as much as its one trajectory. `wanted`: the ids of the steps to be handed
    out, all by default; `broken` is that of `restore_some`.

    Raises:
        StoreError: without `broken`, where a step to be handed out cannot be restored.
    """
    asked = np.ones(steps.num_rows, np.bool_)
    if wanted is not None:
        found = pc.call_function("is_in", [steps["step_id"]], pc.SetLookupOptions(value_set=wanted))
        asked = found.to_numpy().astype(np.bool_)
    borders = _borders(steps["trajectory_id"])
    weights = np.add.reduceat(_weights(steps, borders, columns), borders[:-1]) if steps.num_rows else borders[:0]
    for start, stop in pieces(weights, max_bytes):
        first, last = int(borders[start]), int(borders[stop])
        if asked[first:last].any():
            yield restore_some(steps.slice(first, last - first), asked[first:last], columns, payloads, broken)


def _borders(trajectories: pa.ChunkedArray) -> Places:
    """Where each trajectory begins, and where the last one ends."""
    codes = trajectories.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
    return np.concatenate([np.flatnonzero(np.diff(codes, prepend=-2)), [len(codes)]]).astype(np.int64)


def _weights(steps: pa.Table, borders: Places, columns: Collection[str]) -> Places:
    """Bytes of each whole row, at most: a prompt's text is no longer than all texts of its trajectory up to there."""
    weights = np.full(steps.num_rows, 1, np.int64)
    if "prompt_ids" in columns:
        weights += 4 * steps["prompt_length"].fill_null(0).to_numpy().astype(np.int64)
    if "messages" in columns:
        both = (
            pc.call_function("binary_length", [steps[name]]).fill_null(0).to_numpy()
            for name in ("messages_suffix", "response")
        )
        total = np.cumsum(sum(both), dtype=np.int64)
        before = np.concatenate([np.zeros(1, np.int64), total])[borders[:-1]]
        weights += total - np.repeat(before, np.diff(borders))
    return weights


def readable(names: Iterable[str]) -> list[str]:
    """The columns that a reader of `steps` sees, in the order of the schema, whole ones included."""
    return [name for name in names if name not in (*ENCODED, "ledger")] + list(WHOLE)
