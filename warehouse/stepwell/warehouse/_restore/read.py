"""Reading steps back whole, by id or by trajectory."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._restore.bases import Places
from stepwell.warehouse._restore.whole import BESIDE, WHOLE, needed, readable, restore, restore_some
from stepwell.warehouse._tables.numbers import as_arrow

_LISTED = 200
"""So many ids go into one filter, which the index of the column answers; a longer list would be parsed row by row."""
_PIECES = 20
"""So many filters, each a look-up, before one scan of all rows is cheaper."""
_SCANNED = 64
"""Rows that one column is scanned of in the time that it takes to look up one value by a filter, about."""


def of_trajectories(
    dataset: lance.LanceDataset,
    trajectory_ids: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    payloads: Lookup | None = None,
) -> pa.Table:
    """All steps of these trajectories, whole. Every base is of the same trajectory, so nothing else is needed.

    `payloads` finds what is stored apart (see `Payloads`); without it, steps that have such parts cannot be read.
    """
    wanted = readable(dataset.schema.names) if columns is None else columns
    return restore(stored_of(dataset, trajectory_ids, columns), wanted, payloads)


def stored_of(
    dataset: lance.LanceDataset, trajectory_ids: Sequence[str], columns: Sequence[str] | None = None
) -> pa.Table:
    """The same steps as they are stored, with at least the columns that restoring needs."""
    return matching(dataset, "trajectory_id", trajectory_ids, stored_names(dataset, columns))


def by_id(
    dataset: lance.LanceDataset,
    step_ids: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    payloads: Lookup | None = None,
    broken: MutableMapping[str, str] | None = None,
) -> pa.Table:
    """The steps of these ids, whole, in the order asked for. Ids that are not there are left out.

    Steps that cannot be restored are left out, too, where there is `broken`, which gets their ids and the reasons.

    Raises:
        StoreError: without `broken`, where one of these steps cannot be restored; what else its trajectory has does not matter.
    """
    visible = readable(dataset.schema.names) if columns is None else list(columns)
    found = matching(dataset, "step_id", step_ids, ["step_id", "trajectory_id"])
    trajectories = found["trajectory_id"].drop_null().unique().to_pylist()  # the ledger row is of none
    stored = stored_of(dataset, trajectories, columns)
    asked = pc.SetLookupOptions(value_set=pa.array(step_ids, pa.string()))
    wanted = pc.call_function("is_in", [stored["step_id"]], asked).to_numpy().astype(np.bool_)
    whole = restore_some(stored, wanted, visible, payloads, broken)
    there = pc.SetLookupOptions(value_set=whole["step_id"].combine_chunks())
    place = pc.call_function("index_in", [pa.array(step_ids, pa.string())], there)
    return whole.take(place.drop_null()).select(visible)


def existing(dataset: lance.LanceDataset, key: str, ids: Sequence[str]) -> set[str]:
    """Which of these ids the table already has."""
    if not ids or not holds_data(dataset):
        return set()
    return set(matching(dataset, key, ids, [key])[key].to_pylist())


def holds_data(dataset: lance.LanceDataset) -> bool:
    """Whether a table has anything but its ledger row, which is always there."""
    return bool(dataset.count_rows() > 1)


def stored_names(dataset: lance.LanceDataset, columns: Sequence[str] | None) -> list[str]:
    """The stored columns behind what a reader asks for, all by default."""
    visible = readable(dataset.schema.names) if columns is None else columns
    plain = [name for name in visible if name not in (*WHOLE, *BESIDE)]
    return list(dict.fromkeys([*needed(visible), *plain, "trajectory_id"]))


def matching(dataset: lance.LanceDataset, column: str, values: Sequence[str], columns: list[str]) -> pa.Table:
    """These columns of the rows where `column` is one of `values`."""
    if len(values) <= _LISTED:
        return _listed(dataset, column, values, columns)
    if len(values) <= _LISTED * _PIECES:
        few = dataset.count_rows() <= _SCANNED * len(values)
        if few and (found := _scanned(dataset, column, values, columns)) is not None:
            return found
        different = list(dict.fromkeys(values))
        return pa.concat_tables(
            [
                _listed(dataset, column, different[start : start + _LISTED], columns)
                for start in range(0, len(different), _LISTED)
            ]
        )
    names = list(dict.fromkeys([*columns, column]))
    batches = dataset.to_batches(columns=names)
    wanted = pc.SetLookupOptions(value_set=pa.array(values, pa.string()))
    kept = [batch.filter(pc.call_function("is_in", [batch[column]], wanted)) for batch in batches]
    return pa.Table.from_batches(kept, schema=dataset.scanner(columns=names).projected_schema).select(columns)


def _scanned(dataset: lance.LanceDataset, column: str, values: Sequence[str], columns: list[str]) -> pa.Table | None:
    """The same by looking at the column in all rows first; None where that does not tell where rows are."""
    rows = dataset.to_table(columns=[column], with_row_address=True)
    wanted = pc.SetLookupOptions(value_set=pa.array(values, pa.string()))
    there = rows["_rowaddr"].filter(pc.call_function("is_in", [rows[column]], wanted)).to_numpy()
    places = _places(dataset, there.astype(np.int64))
    return None if places is None else dataset.take(as_arrow(places), columns=columns)


def _listed(dataset: lance.LanceDataset, column: str, values: Sequence[str], columns: list[str]) -> pa.Table:
    listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
    condition = f"{column} IN ({listed})" if values else "false"
    if values and not {column}.issuperset(columns):
        # A filter reads whole pages of each column, however few rows it leaves: of two hundred steps that takes twenty times as long.
        found = dataset.to_table(columns=[], filter=condition, with_row_address=True)["_rowaddr"].to_numpy()
        places = _places(dataset, found.astype(np.int64))
        if places is not None:
            return dataset.take(as_arrow(places), columns=columns)
    return dataset.to_table(columns=columns, filter=condition)


def _places(dataset: lance.LanceDataset, addresses: Places) -> Places | None:
    """Where rows are among all, by their addresses; None where a fragment has deletions, which an address does not know of."""
    ids, starts, start = list[int](), list[int](), 0
    numbers, offsets = addresses >> 32, addresses & 0xFFFF_FFFF
    holding = set(numbers.tolist())
    for fragment in dataset.get_fragments():
        if fragment.fragment_id in holding:
            if fragment.num_deletions:
                return None
            ids.append(fragment.fragment_id)
            starts.append(start)
        start += fragment.physical_rows - fragment.num_deletions
    order = np.argsort(ids)
    at = order[np.searchsorted(np.array(ids, np.int64)[order], numbers)] if ids else np.zeros(0, np.int64)
    places: Places = np.array(starts, np.int64)[at] + offsets
    return places
