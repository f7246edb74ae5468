"""What was submitted, checked record by record and turned into spool entries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from stepwell.errors import InvalidRecord
from stepwell.sdk.records import Feedback, Step, Trajectory, checked, encoded
from stepwell.spool import Entry

__all__ = ["Checked", "Kind", "check", "entry_of"]

Kind = Literal["step", "feedback", "trajectory"]
Marks = Callable[[], dict[str, int]]

HEAD = b'{"format":1}'
"""Version of the body's form, for whoever reads the spool later."""

_ID_FIELDS: dict[Kind, str] = {"step": "step_id", "feedback": "feedback_id", "trajectory": "trajectory_id"}


@dataclass(frozen=True, slots=True)
class Checked:
    """One record of a request: its id (None when it has none one could repeat), and either its entry or why there is none."""

    id: str | None
    entry: Entry | None = None
    error: InvalidRecord | None = None


def check(kind: Kind, values: object, marks: Marks) -> Checked:
    """`values` as an entry for the spool. `marks` is asked when a trajectory ends. Never raises for bad input."""
    try:
        return entry_of(_record(kind, values, marks))
    except InvalidRecord as error:
        given = values.get(_ID_FIELDS[kind]) if isinstance(values, dict) else None
        return Checked(given if isinstance(given, str) and len(given) <= 256 else None, error=error)


def entry_of(record: Step | Feedback | Trajectory) -> Checked:
    """The record's spool entry. Its id makes a repeated submission recognisable."""
    body = encoded(record)
    match record:
        case Step():
            return Checked(record.step_id, Entry(f"step.{record.step_id}", "step", HEAD, body))
        case Feedback():
            return Checked(record.feedback_id, Entry(f"feedback.{record.feedback_id}", "feedback", HEAD, body))
        case Trajectory():
            return Checked(record.trajectory_id, Entry(_event_id(record), "trajectory", HEAD, body))


def _record(kind: Kind, values: object, marks: Marks) -> Step | Feedback | Trajectory:
    match kind:
        case "step":
            return checked(Step, values)
        case "feedback":
            return checked(Feedback, values)
        case "trajectory":
            return _ended(checked(Trajectory, values), marks)


def _ended(record: Trajectory, marks: Marks) -> Trajectory:
    """A trajectory that is over carries how far every producer had come by then: complete once all of that is committed."""
    if record.state == "open":
        return record
    reached = dict(record.marks or {})
    for producer, number in marks().items():
        reached[producer] = max(number, reached.get(producer, 0))
    return record.model_copy(update={"marks": reached})


def _event_id(record: Trajectory) -> str:
    """`trajectory.<id>.<state>.<digest>`: the same words again are a retry; other words (another time, another reason, as when a
    trajectory is opened again) are another event. The marks are the gateway's words, not the caller's.
    """
    said: dict[str, Any] = {"marks": None}
    digest = hashlib.sha256(encoded(record.model_copy(update=said))).hexdigest()[:16]
    return f"trajectory.{record.trajectory_id}.{record.state}.{digest}"
