"""The rows that it takes to resolve some steps, or some trajectories: read by an index, instead of looking at all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from stepwell.warehouse._query.view_of_steps import made_of
from stepwell.warehouse._restore.read import matching
from stepwell.warehouse._restore.whole import ENCODED
from stepwell.warehouse._tables.ledger import LedgerTable

_LARGE = (
    "prompt_ops",
    "prompt_suffix",
    "messages_ops",
    "messages_suffix",
    "tools",
    "response_ids",
    "logprobs",
    "response",
)
"""Columns that nothing is resolved from."""


def rows_about(
    tables: Mapping[str, LedgerTable], column: str, values: Sequence[str], asked: Collection[str] | None
) -> dict[str, pa.Table]:
    """The rows of `steps` with one of these `values` in this column, and of `events` whatever it takes to resolve them.

    With those of the columns `asked` for that are stored whole; by default with all that the view `steps` shows.
    """
    steps, events = tables["steps"].dataset, tables["events"].dataset
    needed, about = made_of(asked)
    shown = needed | {name for name in steps.schema.names if name not in ENCODED and (asked is None or name in asked)}
    names = [name for name in steps.schema.names if name in shown]
    found = _filled(matching(steps, column, values, names), steps.schema)
    targets = {id_ for name in about for id_ in found[name].unique().to_pylist()}
    said = matching(events, "target_id", sorted(targets - {None}), events.schema.names)
    return {"steps": found, "events": said}


def rows_of(tables: Mapping[str, LedgerTable], trajectory_ids: Sequence[str]) -> dict[str, pa.Table]:
    """The rows of `steps`, `events` and `exchanges` that the view `trajectories` makes these trajectories of, without texts and prompts."""
    steps, events, exchanges = (tables[name].dataset for name in ("steps", "events", "exchanges"))
    names = [name for name in steps.schema.names if name not in _LARGE or name == "response_ids"]
    found = _filled(matching(steps, "trajectory_id", trajectory_ids, names), steps.schema)
    about = matching(events, "target_id", [*trajectory_ids, *found["step_id"].to_pylist()], events.schema.names)
    lost = matching(
        exchanges, "trajectory_id", trajectory_ids, ["exchange_id", "trajectory_id", "reason", "producer", "sequence"]
    )
    return {"steps": found, "events": about, "exchanges": _filled(lost, exchanges.schema)}


def _filled(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """With all columns, null where they were not read."""
    there = set(rows.column_names)
    return pa.table(
        [rows[field.name] if field.name in there else pa.nulls(len(rows), field.type) for field in schema], schema
    )
