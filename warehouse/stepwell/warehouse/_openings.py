"""What the openings of trajectories say about their steps, for steps that do not say it themselves.

An opening and the steps come through different producers, so a step may be stored before the opening is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import lance
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._read import holds_data, matching
from stepwell.warehouse._trajectories import Facts, declared_version

_NAMES = ("prompt_id", "group_id", "split", "policy_version")
_ORDER = ("commit", "producer", "sequence", "event_id")


def openings(events: lance.LanceDataset, trajectory_ids: Iterable[str]) -> dict[str, Facts]:
    """The facts of those of the trajectories that were opened; the last opening of each counts."""
    if not holds_data(events):
        return {}
    found = matching(events, "target_id", sorted(set(trajectory_ids)), ["target_id", "kind", "payload", *_ORDER])
    opened = found.filter(pc.field("kind") == "trajectory.open")
    ordered = opened.sort_by([(name, "ascending") for name in _ORDER])
    pairs = zip(ordered["target_id"].to_pylist(), ordered["payload"].to_pylist(), strict=True)
    return {id_: _facts(orjson.loads(payload)) for id_, payload in pairs}


def with_openings(steps: pa.Table, events: lance.LanceDataset) -> pa.Table:
    """`steps` with the openings' facts where a step has none; `split` is `train` where nobody said another.

    Whether `policy_version` may be filled in, `policy_label` says: have both.
    """
    names = [name for name in _NAMES if name in steps.column_names]
    if not names:
        return steps
    of_step = steps["trajectory_id"].to_pylist()
    facts = openings(events, of_step)
    nothing = Facts(split="train")
    for name in names:
        said = pa.array([getattr(facts.get(id_, nothing), name) for id_ in of_step], steps.schema.field(name).type)
        place = steps.column_names.index(name)
        filled = _declared(steps, said) if name == "policy_version" else steps[name].fill_null(said)
        steps = steps.set_column(place, steps.schema.field(name), filled)
    return steps


def _declared(steps: pa.Table, declared: pa.Array) -> pa.Array:
    said = steps["policy_version"]
    labels = steps["policy_label"].to_pylist() if "policy_label" in steps.column_names else [None] * len(steps)
    rows = zip(said.to_pylist(), labels, declared.to_pylist(), strict=True)
    return pa.array([declared_version(*row) for row in rows], said.type)


def _facts(payload: dict[str, Any]) -> Facts:
    return Facts(*(payload.get(name) for name in _NAMES))
