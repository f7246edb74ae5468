"""The short names a caller may use, and what an enclosing `trajectory()` block adds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidRecord

if TYPE_CHECKING:
    from stepwell.sdk.records import Trajectory

__all__ = ["feedback_fields", "now", "step_fields"]

_STEP = {
    "step": "step_id",
    "trajectory": "trajectory_id",
    "group": "group_id",
    "prompt": "prompt_id",
    "parent": "parent_id",
}
_FEEDBACK = {
    "step": "step_id",
    "trajectory": "trajectory_id",
    "group": "group_id",
    "chosen": "step_id",
    "rejected": "rejected_id",
}
_TARGETS = ("step_id", "trajectory_id", "group_id", "response_id")
_SHARED = ("prompt_id", "group_id", "split", "policy_version")
"""What a step takes over from its trajectory where it does not say otherwise."""


def now() -> datetime:
    """The caller's clock, with its zone. Kept for people to read; never used to put records in order."""
    return datetime.now(UTC)


def step_fields(given: Mapping[str, Any], block: Trajectory | None) -> dict[str, Any]:
    """The fields of a Step. Outside of any block, STEPWELL_TRAJECTORY (set by `stepwell run`) names the trajectory."""
    fields = _long_names(given, _STEP)
    if block is None:
        if fields.get("trajectory_id") is None and (run := os.environ.get("STEPWELL_TRAJECTORY")):
            fields["trajectory_id"] = run
    elif fields.get("trajectory_id") in (None, block.trajectory_id):
        fields["trajectory_id"] = block.trajectory_id
        for name in _SHARED:
            if fields.get(name) is None:
                fields[name] = getattr(block, name)
    return fields


def feedback_fields(given: Mapping[str, Any], block: Trajectory | None) -> dict[str, Any]:
    """The fields of a Feedback. One that names no target is about the trajectory it is given in."""
    for one, other in (("chosen", "rejected"), ("rejected", "chosen")):
        if one in given and given.get(other) is None:
            raise InvalidRecord(other, f"a preference names both sides: give {other}= with {one}=")
    fields = _long_names(given, _FEEDBACK)
    if all(fields.get(name) is None for name in _TARGETS):
        current = block.trajectory_id if block is not None else os.environ.get("STEPWELL_TRAJECTORY")
        if current:
            fields["trajectory_id"] = current
    if fields.get("at") is None:
        fields["at"] = now()
    return fields


def _long_names(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in given.items():
        long = names.get(name, name)
        if fields.get(long) is not None and value is not None:
            raise InvalidRecord(name, f"{long} is given twice under two names")
        if fields.get(long) is None:
            fields[long] = _id_of(value) if long != name else value
    return fields


def _id_of(value: object) -> object:
    """Where an id is expected, what carries one will do: a record, or the handle of a trajectory."""
    for name in ("step_id", "trajectory_id"):
        if isinstance(found := getattr(value, name, None), str):
            return found
    return value
