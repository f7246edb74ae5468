"""What is said about steps and trajectories, as rows of `events`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from stepwell.sdk.records import Feedback, Step, Trajectory

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row comes from: the spool record."""

    producer: str
    sequence: int
    at: datetime

    @property
    def columns(self) -> Row:
        return {"producer": self.producer, "sequence": self.sequence}


def feedback_row(feedback: Feedback, origin: Origin) -> Row:
    """A row of `events`. `value` is the number said (reward, score, rating; trainable: 1 or 0), `text` the label, comment, rejected step or
    undone event."""
    target_kind, target_id = feedback.target
    trainable = None if feedback.trainable is None else float(feedback.trainable)
    numbers = (feedback.reward, feedback.score, feedback.rating, trainable)
    texts = (feedback.label, feedback.rejected_id, feedback.undo, feedback.comment)
    payload = feedback.model_dump(include={"scale", "correction", "retract", "comment", "metadata"}, exclude_none=True)
    return {
        "event_id": feedback.feedback_id,
        "kind": feedback.kind,
        "target_kind": target_kind,
        "target_id": target_id,
        "name": feedback.name or feedback.kind,
        "author": feedback.author,
        "value": next((number for number in numbers if number is not None), None),
        "text": next((text for text in texts if text is not None), None),
        "payload": _json(payload or None),
        "created_at": feedback.at or origin.at,
        **origin.columns,
    }


def trajectory_row(trajectory: Trajectory, event_id: str, origin: Origin) -> Row:
    """A row of `events`: a trajectory was opened, completed, or failed."""
    payload = trajectory.model_dump(exclude={"trajectory_id", "state", "at"}, exclude_none=True)
    return {
        "event_id": event_id,
        "kind": f"trajectory.{trajectory.state}",
        "target_kind": "trajectory",
        "target_id": trajectory.trajectory_id,
        "name": "state",
        "text": trajectory.reason,
        "payload": _json(payload),
        "created_at": trajectory.at or origin.at,
        **origin.columns,
    }


def reward_row(step: Step, origin: Origin) -> Row:
    """The event of a reward that came with its step."""
    # Not validated again: the longest step id, with more after it, is no id that anybody may send.
    said = Feedback.model_construct(feedback_id=f"{step.step_id}.reward", step_id=step.step_id, reward=step.reward)
    return feedback_row(said, origin)


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()
