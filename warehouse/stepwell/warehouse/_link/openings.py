"""What the openings of trajectories say about their steps, for steps that do not say it themselves.

An opening and the steps come through different producers, so a step may be stored before the opening is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lance
import orjson
import pyarrow.compute as pc

from stepwell.warehouse._link.trajectories import Facts
from stepwell.warehouse._restore.read import holds_data, matching
from stepwell.warehouse._tables.order import in_order

_NAMES = ("prompt_id", "group_id", "split", "policy_version")
_COLUMNS = ["target_id", "kind", "payload", "producer", "sequence", "event_id"]


def openings(
    events: lance.LanceDataset, trajectory_ids: Iterable[str], commits: lance.LanceDataset
) -> dict[str, Facts]:
    """The facts of those of the trajectories that were opened; the last opening of each counts, one in a commit to come most of all."""
    if not holds_data(events):
        return {}
    found = matching(events, "target_id", sorted(set(trajectory_ids)), _COLUMNS)
    ordered = in_order(found.filter(pc.field("kind") == "trajectory.open"), "event_id", commits)
    pairs = zip(ordered["target_id"].to_pylist(), ordered["payload"].to_pylist(), strict=True)
    return {id_: _facts(orjson.loads(payload)) for id_, payload in pairs}


def _facts(payload: dict[str, Any]) -> Facts:
    return Facts(*(payload.get(name) for name in _NAMES))
