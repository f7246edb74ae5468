"""What the warehouse knows about a selection and the rest of its prompt groups, asked in three queries and kept as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord, StoreError
from stepwell.reader._select.columns import in_order, steps_of, trajectories_of
from stepwell.reader._select.steps import Steps

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

_COLUMNS = (
    *("step_id", "trajectory_id", "group_id", "parent_id", "turn", "prompt_length", "drift_at", "drift_cause"),
    *("fingerprint", "policy", "side", "truncated", "sampling", "logprobs_mode", "step_rewards"),
)
_NAMES = "SELECT DISTINCT trajectory_id, group_id FROM steps WHERE ({where}\n)"
_CHOSEN = f"WITH chosen AS MATERIALIZED ({_NAMES})"
_AMONG = "trajectory_id IN (SELECT trajectory_id FROM chosen) OR group_id IN (SELECT group_id FROM chosen)"
_DERIVED = "'the token ids were derived from text (' || source || '), not sampled'"
"""Why the warehouse calls such steps untrainable. Whether they train is for the caller to say: `derived` tells which they are."""
_STEPS = f"""
SELECT {", ".join(_COLUMNS)}, len(response_ids) AS response_length, len(logprobs) AS logprobs,
       CASE WHEN prompt_key IS NOT NULL THEN hash(prompt_key) END AS prompt_key,
       coalesce(split, 'train') = 'train' AS training, superseded_by IS NOT NULL AS superseded,
       coalesce(source <> 'engine', true) AS derived,
       CASE WHEN NOT trainable AND coalesce(untrainable_reason <> {_DERIVED}, true)
            THEN coalesce(untrainable_reason, 'no reason given') END AS untrainable,
       coalesce(({{where}}
       ), false) AS selected
FROM steps WHERE {{among}}
"""
"""Without an order: sorting would hold all rows with all that is read of them, tokens too, where one pass needs to hold none."""
_TRAJECTORIES = """
SELECT trajectory_id, group_id, prompt_id, split, state, trajectory_rewards FROM trajectories WHERE {among}
ORDER BY group_id, trajectory_id
"""
_NAMED = 10_000
"""Trajectories at most that a query names, so that an index finds them; for more, every step is looked at."""
_LOOKED_UP = 1_000
"""Parents at most; where more are missing, something is wrong with the warehouse."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What to read: a condition over the view `steps`, at one version of the warehouse."""

    where: str
    at: int
    label: str
    """What messages call it."""
    count: int | None = None
    """How many steps it must find."""
    frozen: str | None = None
    """Of a dataset, its rows: what stands behind FROM."""

    @classmethod
    def of(
        cls, warehouse: Warehouse, dataset: str | None, version: int | None, where: str | None, at: str | int | None
    ) -> Selection:
        """
        Raises:
            InvalidRecord: both a dataset and a condition, or neither; there is no such version.
            StoreError: there is no such dataset.
        """
        if (dataset is None) == (where is None):
            raise InvalidRecord("dataset", "give either a dataset or a condition (where=)")
        if where is not None:
            if version is not None:
                raise InvalidRecord(
                    "version", "is that of a dataset; a condition is read at a version of the warehouse (at=)"
                )
            return cls(where, warehouse.version(at), f"steps where {where}")
        if at is not None:
            raise InvalidRecord("at", "a dataset is frozen: it is read as it was made")
        found = warehouse.datasets.get(str(dataset), version)
        name = found.name.replace("'", "''")
        rows = f"dataset_rows WHERE name = '{name}' AND version = {found.version}"
        among = f"step_id IN (SELECT step_id FROM {rows})"
        return cls(among, found.at_commit, f"dataset {found.label}", found.steps, rows)

    def read(self, warehouse: Warehouse) -> Steps:
        """The facts of the selection and the rest of its groups.

        Raises:
            InvalidRecord: nothing is selected.
            StoreError: steps of the dataset are gone.
            StepwellError: the condition is no valid SQL.
        """
        found, told = self._found(warehouse)
        trajectories = trajectories_of(told)
        steps = steps_of(in_order(found, trajectories), trajectories, self._elsewhere(warehouse, found))
        del found
        pa.default_memory_pool().release_unused()  # what the texts took is many times what was kept of them
        selected = int(steps.selected.sum())
        if self.count is not None and selected != self.count:
            gone = self.count - selected
            raise StoreError(
                f"{self.label}: {gone} of its {self.count} steps are not in the warehouse any more; make another version"
            )
        if not selected:
            raise InvalidRecord("where", f"{self.label}: nothing is selected")
        return steps

    def _found(self, warehouse: Warehouse) -> tuple[pa.Table, pa.Table]:
        """The steps, and their trajectories: of the selection and the rest of its groups."""
        chosen = warehouse.query(f"{_NAMES.format(where=self.where)} LIMIT {_NAMED + 1}", at=self.at)
        if chosen.num_rows <= _NAMED:
            names = {name: chosen[name].unique().drop_null().to_pylist() for name in chosen.column_names}
            among = " OR ".join(f"{name} IN ({_listed(some)})" for name, some in names.items() if some)
            told = warehouse.query(_TRAJECTORIES.format(among=among or "false"), at=self.at)
            if told.num_rows <= _NAMED:
                among = f"trajectory_id IN ({_listed(told['trajectory_id'].to_pylist())})" if told.num_rows else "false"
                return warehouse.query(_STEPS.format(where=self.where, among=among), at=self.at), told
        chosen_first = _CHOSEN.format(where=self.where)
        found = warehouse.query(chosen_first + _STEPS.format(where=self.where, among=_AMONG), at=self.at)
        return found, warehouse.query(chosen_first + _TRAJECTORIES.format(among=_AMONG), at=self.at)

    def _elsewhere(self, warehouse: Warehouse, found: pa.Table) -> pa.Array:
        """Parents that are not among the steps found, and are there all the same: in trajectories that have nothing to do with these."""
        named = found["parent_id"].unique().drop_null()
        among = pc.call_function("is_in", [named], pc.SetLookupOptions(value_set=found["step_id"].combine_chunks()))
        missing = named.filter(pc.call_function("invert", [among])).to_pylist()
        if not missing:
            return named.slice(0, 0)
        listed = _listed(missing[:_LOOKED_UP])
        return warehouse.query(f"SELECT step_id FROM steps WHERE step_id IN ({listed})", at=self.at)[
            "step_id"
        ].combine_chunks()


def _listed(names: list[str]) -> str:
    return ", ".join("'" + name.replace("'", "''") + "'" for name in names)
