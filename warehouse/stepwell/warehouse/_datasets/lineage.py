"""Where a dataset comes from: which policies, models and sources, from how many trajectories, and from which other datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from stepwell.warehouse._datasets.registry import Dataset
from stepwell.warehouse._query.asked import constants_in
from stepwell.warehouse._query.engine import connection

_LISTED = ("policy", "policy_version", "model", "source", "fingerprint", "dialect")
"""Columns whose values are noted, each once."""


def lineage_of(query: Callable[[str], pa.Table], condition: str) -> dict[str, Any]:
    """What the steps of a selection are: a list of values per column, and the numbers of steps, trajectories and groups."""
    lists = [
        f"coalesce(list(DISTINCT {name} ORDER BY {name}) FILTER ({name} IS NOT NULL), []) AS {name}" for name in _LISTED
    ]
    counts = [f"count(DISTINCT {kind}_id) AS {plural}" for kind, plural in _COUNTED.items()]
    [row] = query(f"SELECT {', '.join((*counts, *lists))} FROM steps WHERE {condition}").to_pylist()
    return {**{name: row[name] for name in _COUNTED.values()}, **{_PLURAL[name]: row[name] for name in _LISTED}}


def datasets_named(where: str, at: object, known: Iterable[Dataset]) -> list[str]:
    """The datasets that a selection was made from, as far as it says so: `name@version`, or `name` where it is not one version.

    A filter names a dataset by a text in it, as in `step_id IN (SELECT step_id FROM dataset_rows WHERE name = 'math' AND version = 2)`.
    """
    with connection() as db:
        said = constants_in(db, f"FROM steps WHERE ({where}\n)")
    versions: dict[str, set[int]] = {}
    for item in known:
        versions.setdefault(item.name, set()).add(item.version)
    found = {f"{name}@{version}" for name, all_ in versions.items() for version in all_} & {*map(str, said), str(at)}
    for name in versions.keys() & said:
        numbers = versions[name] & said
        found.add(f"{name}@{min(numbers)}" if len(numbers) == 1 else name)
    return sorted(found)


_COUNTED = {"step": "steps", "trajectory": "trajectories", "group": "groups"}
_PLURAL = {
    "policy": "policies",
    "policy_version": "policy_versions",
    "model": "models",
    "source": "sources",
    "fingerprint": "realisations",
    "dialect": "dialects",
}
