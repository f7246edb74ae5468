"""The views `trajectories` and `groups` over summaries: rows as they were kept, and anew those that something came about since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import lance
import pyarrow as pa

from stepwell.warehouse._tables.schema import GROUPS, TRAJECTORIES, TableSpec

Views = Mapping[str, tuple[str, tuple[str, ...]]]

_NOT_SHOWN = {"awaits", "producer", "sequence", "ledger"}


def shown(spec: TableSpec) -> list[str]:
    """The columns of a summary that its view has, too."""
    return [name for name in spec.schema.names if name not in _NOT_SHOWN]


def read_back(spec: TableSpec) -> list[str]:
    """What to select from the view so that the answer fits the summary."""
    return [f"map_entries({name}) AS {name}" if _is_map(spec, name) else name for name in shown(spec)]


def stored(spec: TableSpec, rows: pa.Table) -> pa.Table:
    """Rows of a view as rows of its summary."""
    empty = [field for field in spec.schema if field.name not in rows.column_names]
    for field in empty:
        rows = rows.append_column(field, pa.nulls(len(rows), field.type))
    return rows.select(spec.schema.names).cast(spec.schema)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two: the rows that were kept, but for those with these keys, in whose place stand `fresh` ones."""

    kept: lance.LanceDataset | pa.Table
    touched: pa.Table
    fresh: pa.Table


@dataclass(frozen=True, slots=True)
class Kept:
    """What to define the views over. Without `groups` those are made of the trajectories."""

    trajectories: Part
    groups: Part | None = None

    def views(self, db: duckdb.DuckDBPyConnection) -> Views:
        """Register what the views need; their definitions, instead of those over the facts."""
        views = {"trajectories": (_view(db, TRAJECTORIES, self.trajectories), ())}
        return views if self.groups is None else {**views, "groups": (_view(db, GROUPS, self.groups), ())}


def _view(db: duckdb.DuckDBPyConnection, spec: TableSpec, part: Part) -> str:
    name = spec.name
    db.register(f"_kept_{name}", part.kept)
    # Maps are stored as lists, which every reader of Lance understands.
    columns = ", ".join(
        f"map_from_entries({column}) AS {column}" if _is_map(spec, column) else column for column in shown(spec)
    )
    definition = f"CREATE TEMP VIEW {name} AS SELECT {columns} FROM _kept_{name} WHERE ledger IS NULL"
    if part.touched.num_rows:
        db.register(f"_touched_{name}", part.touched)
        db.register(f"_fresh_{name}", part.fresh)
        definition += f" AND {spec.key} NOT IN (SELECT {spec.key} FROM _touched_{name})"
        definition += f" UNION ALL SELECT {columns} FROM _fresh_{name}"
    return definition


def _is_map(spec: TableSpec, column: str) -> bool:
    type_ = spec.schema.field(column).type
    return bool(pa.types.is_list(type_) and pa.types.is_struct(type_.value_type))
