"""What two versions of a dataset differ in."""

from __future__ import annotations

import pyarrow as pa

from stepwell.warehouse._datasets.frozen import RESOLVED
from stepwell.warehouse._query.engine import connection

_SHOWN = ("step_reward", "trajectory_reward", "labels", "trajectory_labels")
"""Columns whose values before and after are shown."""


def difference(before: pa.Table, after: pa.Table) -> pa.Table:
    """The steps that are in one only, or have other values: one row each, those of `after` in its order, then what was removed.

    Columns: `step_id`, `trajectory_id`, `change` (`added | removed | changed`), `columns` (which of the resolved ones differ), and of
    rewards and labels `<column>_before` and `<column>_after`.
    """
    differs = ", ".join(f"CASE WHEN a.{name} IS DISTINCT FROM b.{name} THEN '{name}' END" for name in RESOLVED)
    shown = ", ".join(f"b.{name} AS {name}_before, a.{name} AS {name}_after" for name in _SHOWN)
    with connection() as db:
        db.register("before", _placed(before))
        db.register("after", _placed(after))
        return db.sql(f"""
            SELECT * EXCLUDE (place_before, place_after) FROM (
              SELECT coalesce(a.step_id, b.step_id) AS step_id, coalesce(a.trajectory_id, b.trajectory_id) AS trajectory_id,
                     CASE WHEN b.step_id IS NULL THEN 'added' WHEN a.step_id IS NULL THEN 'removed' ELSE 'changed' END AS change,
                     CASE WHEN a.step_id IS NULL OR b.step_id IS NULL THEN []::VARCHAR[]
                          ELSE list_filter([{differs}], lambda name: name IS NOT NULL) END AS columns,
                     {shown}, b.place AS place_before, a.place AS place_after
              FROM before b FULL JOIN after a USING (step_id))
            WHERE change <> 'changed' OR len(columns) > 0
            ORDER BY place_after NULLS LAST, place_before
        """).to_arrow_table()


def _placed(rows: pa.Table) -> pa.Table:
    return rows.append_column("place", pa.array(range(rows.num_rows), pa.int64()))
