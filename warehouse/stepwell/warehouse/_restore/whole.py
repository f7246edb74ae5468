"""Whole prompts from stored differences. Nothing outside this package knows that they were ever taken apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, MutableMapping
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.errors import StoreError
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._restore.bases import BASES_NEEDED, Bases, Broken, Places, pieces
from stepwell.warehouse._restore.ids import IDS_NEEDED, whole_prompts
from stepwell.warehouse._restore.media import without_data
from stepwell.warehouse._restore.texts import TEXTS_NEEDED, Texts
from stepwell.warehouse._tables.numbers import as_arrow

ENCODED = (
    *("base_id", "base_depth", "prompt_ops", "prompt_suffix", "messages_ops", "messages_suffix"),
    *("tools", "payload_ids"),
)
"""The columns that exist for storage only."""

WHOLE = ("prompt_ids", "messages", "tools")
"""What they are restored to: int32 list; JSON text; JSON text. Null where the step has none."""

BESIDE = ("plain_messages", "media")
"""What else can be restored, for who asks for it by name: `messages` without the data of images, audio and files, which `response` is
without then, too; the hashes of those, of messages and response, in their order (list of string, see `media_of`). Null without messages."""

_Rows = TypeVar("_Rows", pa.Table, pa.Array)

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
    kept = _restored(Bases(steps), None, columns, payloads, reasons)
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
    """The rows of `steps` where `wanted` (bool [rows]) is true, as `restore_rows` gives them."""
    return restore_rows(steps, np.flatnonzero(wanted), columns, payloads, broken)


def restore_rows(
    steps: pa.Table,
    rows: Places,
    columns: Collection[str] = WHOLE,
    payloads: Lookup | None = None,
    broken: MutableMapping[str, str] | None = None,
) -> pa.Table:
    """These different rows of `steps`, in this order, whole. Of the others only what those refer to is restored.

    What cannot be restored is left out where there is `broken`, which gets its id and the reason.

    Raises:
        StoreError: without `broken`, where one of the rows cannot be restored.
    """
    reasons: Broken = {}
    whole = _restored(Bases(steps), rows, columns, payloads, reasons)
    lost = sorted(reasons.keys() & set(rows.tolist())) if reasons else []
    if lost and broken is None:
        raise StoreError(reasons[lost[0]])
    if broken is not None:
        broken.update((steps["step_id"][row].as_py(), reasons[row]) for row in lost)
    return whole.filter(as_arrow(~np.isin(rows, lost))) if lost else whole


def _restored(
    bases: Bases, rows: Places | None, columns: Collection[str], payloads: Lookup | None, reasons: Broken
) -> pa.Table:
    """These rows, by default all, with what of `columns` is restored behind the others."""
    kept = bases.steps.select([name for name in bases.steps.column_names if name not in ENCODED])
    whole = _taken(kept, rows)
    if "prompt_ids" in columns:
        whole = whole.append_column("prompt_ids", whole_prompts(bases, reasons, rows))
    names = {"response", "messages", "tools", *BESIDE}.intersection({*columns, *kept.column_names})
    found = _texts(bases, rows, names, payloads, reasons) if names else {}
    if "response" in kept.column_names:
        whole = whole.set_column(kept.column_names.index("response"), "response", found["response"])
    for name in ("messages", "tools", *BESIDE):
        whole = whole.append_column(name, found[name]) if name in columns else whole
    return whole


def _texts(
    bases: Bases, rows: Places | None, names: Collection[str], payloads: Lookup | None, reasons: Broken
) -> dict[str, pa.Array]:
    """These columns of the rows. Nothing is looked up for what they do not refer to."""
    used = np.ones(bases.count, np.bool_) if rows is None else bases.chain(rows)
    broken: Broken = {}
    bare = payloads is not None and "messages" not in names and not {*BESIDE}.isdisjoint(names)
    texts = Texts(bases.only(used, needed(names)), without_data(payloads) if payloads and bare else payloads, broken)
    made = {"response": texts.responses, "messages": texts.messages, "tools": texts.tools}
    made |= {"plain_messages": texts.messages, "media": texts.media}
    place = None if rows is None else (np.cumsum(used) - 1)[rows]
    found = {name: _taken(make(), place) for name, make in made.items() if name in names}
    there = np.flatnonzero(used)
    for row, why in broken.items():
        reasons.setdefault(int(there[row]), why)
    return found


def _taken(found: _Rows, rows: Places | None) -> _Rows:
    return found if rows is None or _in_order(rows, len(found)) else found.take(as_arrow(rows))


def _in_order(rows: Places, count: int) -> bool:
    """Whether these are all of so many rows as they are; taking them would copy."""
    return len(rows) == count and bool((np.diff(rows, prepend=-1) == 1).all())


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
    out, all by default; `broken` is that of `restore_rows`.

    Raises:
        StoreError: without `broken`, where a step to be handed out cannot be restored.
    """
    asked = np.ones(steps.num_rows, np.bool_)
    if wanted is not None:
        found = pc.call_function("is_in", [steps["step_id"]], pc.SetLookupOptions(value_set=wanted))
        asked = found.to_numpy().astype(np.bool_)
    codes = _codes(steps)
    borders = np.concatenate([np.flatnonzero(np.diff(codes, prepend=-2)), [len(codes)]]).astype(np.int64)
    by_trajectory = np.add.reduceat(weights(steps, columns), borders[:-1]) if steps.num_rows else borders[:0]
    for start, stop in pieces(by_trajectory, max_bytes):
        first, last = int(borders[start]), int(borders[stop])
        if asked[first:last].any():
            yield restore_some(steps.slice(first, last - first), asked[first:last], columns, payloads, broken)


def weights(steps: pa.Table, columns: Collection[str]) -> Places:
    """Bytes of each whole row, at most: a prompt's text is no longer than all texts of its trajectory up to there."""
    weights = np.full(steps.num_rows, 1, np.int64)
    if "prompt_ids" in columns:
        weights += 4 * steps["prompt_length"].fill_null(0).to_numpy().astype(np.int64)
    if not {"messages", "plain_messages"}.isdisjoint(columns) and steps.num_rows:
        own, answer = (
            pc.call_function("binary_length", [steps[name]]).fill_null(0).to_numpy()
            for name in ("messages_suffix", "response")
        )
        codes = _codes(steps)
        order = np.argsort(codes, kind="stable")
        total = np.cumsum((own + answer)[order], dtype=np.int64)
        first = np.searchsorted(codes[order], codes[order])
        weights[order] += total - np.where(first > 0, total[first - 1], 0)
    return weights


def _codes(steps: pa.Table) -> Places:
    """A number for each row's trajectory."""
    coded = steps["trajectory_id"].combine_chunks().dictionary_encode()
    codes: Places = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
    return codes


def readable(names: Iterable[str]) -> list[str]:
    """The columns that a reader of `steps` sees, in the order of the schema, whole ones included."""
    return [name for name in names if name not in (*ENCODED, "ledger")] + list(WHOLE)
