"""Which steps a worker is asked about: those of a dataset, a prompt group, a trajectory or a condition, at one version of the warehouse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidRecord
from stepwell.gateway._cursor import literal
from stepwell.gateway._problems import Problem

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

__all__ = ["Chosen", "check_size"]

_WAYS = ("dataset", "group_id", "trajectory_id", "where")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A condition over the view `steps`, and the commit to read at."""

    where: str
    at: int
    label: str
    name: str | None = None
    """Of the dataset, and its version."""
    version: int | None = None

    @classmethod
    def of(cls, warehouse: Warehouse, asked: Mapping[str, Any]) -> Chosen:
        """
        Raises:
            InvalidRecord: not one of the ways to choose, but none or several; there is no such version.
            Problem: 404, there is no such dataset.
            BadQuery: the condition is none.
        """
        ways = [way for way in _WAYS if way in asked]
        given = [way for way in ways if asked[way] is not None]
        if len(given) != 1:
            raise InvalidRecord(given[1] if given else ways[0], f"give exactly one of {', '.join(ways)}")
        (way,) = given
        if way == "dataset":
            if asked.get("at") is not None:
                raise InvalidRecord("at", "a dataset is frozen: it is read as it was made")
            return cls._dataset(warehouse, asked[way])
        number = warehouse.version(asked.get("at"))
        if way == "where":
            if not asked.get("made_here"):  # of filters, which were checked, and may be over other views, too
                from stepwell.warehouse import columns_of_condition  # with the warehouse, and not before

                columns_of_condition(asked[way])
            return cls(asked[way], number, f"steps where {asked[way]}")
        return cls(f"{way} = {literal(asked[way])}", number, f"{way.removesuffix('_id')} {asked[way]}")

    @classmethod
    def _dataset(cls, warehouse: Warehouse, named: str) -> Chosen:
        from stepwell.warehouse import reference

        name, version = reference(named)
        found = warehouse.query(
            f"SELECT version, at_commit FROM datasets WHERE name = {literal(name)} ORDER BY version"
        ).to_pylist()
        right = [row for row in found if version in (None, row["version"])]
        if not right:
            raise Problem(404, f"there is no dataset {named!r:.300}; GET /api/v1/datasets lists them")
        newest = right[-1]
        among = f"SELECT step_id FROM dataset_rows WHERE name = {literal(name)} AND version = {newest['version']}"
        label = f"dataset {name}@{newest['version']}"
        return cls(f"step_id IN ({among})", newest["at_commit"], label, name, newest["version"])


def check_size(steps: int, most: int) -> None:
    """Raises Problem (422) where there are more steps than are looked at."""
    if steps > most:
        detail = f"{steps:,} steps are selected, and at most {most:,} are looked at here: select fewer"
        raise Problem(422, detail, steps=steps, most=most)
