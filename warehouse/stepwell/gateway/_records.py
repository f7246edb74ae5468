"""What was submitted, checked record by record and turned into spool entries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from stepwell.errors import InvalidRecord
from stepwell.gateway._body import Unreadable
from stepwell.gateway._memory import hashed
from stepwell.gateway._project import with_project
from stepwell.sdk.records import Feedback, Step, Trajectory, checked, encoded, something_was_seen
from stepwell.spool import Entry

__all__ = ["HEAD", "ID_FIELDS", "Checked", "Kind", "NewId", "entry_of", "record_of", "refused"]

Kind = Literal["step", "feedback", "trajectory", "exchange", "event"]
Marks = Callable[[], dict[str, int]]
NewId = Callable[[], str | None]
"""Names the next record of a request that has no id of its own; None: let it get a random one."""

HEAD = b'{"format":1}'
"""Version of the body's form, for whoever reads the spool later."""

ID_FIELDS: dict[Kind, str] = {
    "step": "step_id",
    "feedback": "feedback_id",
    "trajectory": "trajectory_id",
    "exchange": "exchange_id",
    "event": "event_id",
}


@dataclass(slots=True)
class Checked:
    """One record of a request: its id (None when it has none one could repeat), and what is to be kept or why there is nothing."""

    id: str | None
    error: InvalidRecord | None = None
    key: bytes = b""
    """What it is remembered by: the same key again is a duplicate."""
    entries: tuple[Entry, ...] = ()
    """Several records may share one entry."""
    known: bool = False
    """It was taken before."""


def record_of(kind: Kind, values: object, marks: Marks, new_id: NewId) -> Checked:
    """`values` as an entry for the spool. `marks` is asked when a trajectory ends. Never raises for bad input."""
    try:
        return entry_of(_record(kind, named(kind, values, new_id), marks))
    except InvalidRecord as error:
        return refused(kind, values, error)


def named(kind: Kind, values: object, new_id: NewId) -> object:
    """`values` with the token's project, and an id where they have none and the request has one to give.

    Raises InvalidRecord for a line that is no JSON, for another project, and for a step that saw nothing.
    """
    if isinstance(values, Unreadable):
        raise values.error
    if not isinstance(values, dict):
        return values
    if kind == "step":
        something_was_seen(values)
    values = with_project(kind, values)
    field = ID_FIELDS[kind]
    return {**values, field: id_} if field not in values and (id_ := new_id()) is not None else values


def refused(kind: Kind, values: object, error: InvalidRecord) -> Checked:
    """What cannot be taken, under the id that it came with."""
    given = values.get(ID_FIELDS[kind]) if isinstance(values, Mapping) else None
    return Checked(given if isinstance(given, str) and len(given) <= 256 else None, error)


def entry_of(record: Step | Feedback | Trajectory) -> Checked:
    """The record's spool entry. Its id makes a repeated submission recognisable."""
    match record:
        case Step():
            id_, entry = record.step_id, Entry(f"step.{record.step_id}", "step", HEAD, encoded(record))
        case Feedback():
            id_, entry = record.feedback_id, Entry(f"feedback.{record.feedback_id}", "feedback", HEAD, encoded(record))
        case Trajectory():
            id_, entry = record.trajectory_id, Entry(_event_id(record), "trajectory", HEAD, encoded(record))
    return Checked(id_, key=hashed(entry.id), entries=(entry,))


def _record(kind: Kind, values: object, marks: Marks) -> Step | Feedback | Trajectory:
    if kind == "trajectory":
        return _ended(checked(Trajectory, values), marks)
    return checked(Feedback, values) if kind == "feedback" else checked(Step, values)


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
