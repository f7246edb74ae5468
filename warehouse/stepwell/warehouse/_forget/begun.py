"""What a run has set about: the ids that it forgets, on the store before anything is changed, gone when nothing of them is left.

Without it a run that was interrupted could not be finished: what its condition selected, or what referred to what, may be deleted by then.
"""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.errors import StoreError
from stepwell.warehouse._forget.plan import SETS, Plan
from stepwell.warehouse._store.objects import Objects
from stepwell.warehouse._upkeep.beside import FORGETTING

_FORMAT = 1


class Begun:
    """The runs that were begun and not finished, of a warehouse. Everything raises StoreError when the store fails."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def read(self) -> dict[str, Plan]:
        """By name, what each of them knows.

        Raises:
            StoreError: one cannot be read.
        """
        keys = [key for key, _ in self._objects.listed(FORGETTING)]
        found = {key.rpartition("/")[2]: self._objects.get(key) for key in keys}
        return {run: _decoded(run, data) for run, data in found.items() if data is not None}

    def write(self, run: str, made: Plan) -> None:
        """What it knows now."""
        sets = {name: sorted(ids) for name, ids in made.sets().items()}
        said = {"format": _FORMAT, **sets, "datasets": made.datasets}
        self._objects.put(f"{FORGETTING}/{run}", orjson.dumps(said))

    def finish(self, run: str) -> None:
        """Nothing of it is left."""
        self._objects.delete([f"{FORGETTING}/{run}"])


def _decoded(run: str, data: bytes) -> Plan:
    try:
        said: dict[str, Any] = orjson.loads(data)
        if said["format"] <= _FORMAT:
            datasets = {id_: (int(steps), int(peers)) for id_, (steps, peers) in said["datasets"].items()}
            sets: dict[str, Any] = {name: set(said[name]) for name in SETS}
            return Plan(**sets, datasets=datasets)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{FORGETTING}/{run}, of a forget that was interrupted, cannot be read: {error}") from error
    raise StoreError(f"{FORGETTING}/{run} is of a newer version: upgrade Stepwell, and run this again")
