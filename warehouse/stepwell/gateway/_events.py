"""Live events of a service that nobody looks into: what its users did, as feedback.

The service names the answer (`response_id` as its provider gave it, or a step, trajectory or group) and what happened to it. The table
`EVENTS` is the whole mapping; docs/gateway.md has it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from stepwell.errors import InvalidRecord
from stepwell.gateway._records import Checked, NewId, entry_of, named, refused
from stepwell.sdk.records import MAX_JSON_BYTES, Feedback, checked, new_id

__all__ = ["EVENTS", "Event", "EventType", "event_of"]

EventType = Literal[
    "shown",
    "copied",
    "inserted",
    "shared",
    "dismissed",
    "reported",
    "regenerated",
    "edited",
    "resolved",
    "failed",
    "thumbs_up",
    "thumbs_down",
    "rating",
    "reward",
    "score",
    "preferred",
    "comment",
]
Id = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Field(max_length=MAX_JSON_BYTES)]
Name = Annotated[str, Field(min_length=1, max_length=256)]


class Event(BaseModel):
    """Something happened to an answer. Exactly one of `step_id`, `trajectory_id`, `group_id`, `response_id` says to which."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    event_id: Id = Field(default_factory=new_id)
    """The same id again is the same event."""
    type: EventType
    step_id: Id | None = None
    trajectory_id: Id | None = None
    group_id: Id | None = None
    response_id: Id | None = None
    """The provider's own id of the answer."""
    value: Annotated[float, Field(allow_inf_nan=False, strict=True)] | None = None
    """Of `rating`, `reward`, `score`: the number. Of `resolved` and `failed`: the reward, 1 and 0 where it is left out."""
    scale: Annotated[float, Field(allow_inf_nan=False, strict=True)] | None = None
    """Of `rating`: the best one possible."""
    text: Text | None = None
    """Of `edited`: what the user made of the answer."""
    rejected_id: Id | None = None
    """Of `preferred` and `regenerated`: the step that the target is better than."""
    name: Name | None = None
    """Which reward, rating, label: the last per target, name and author counts. Each type has its own."""
    author: Name | None = None
    """Who did it; a pseudonym will do."""
    comment: Text | None = None
    at: AwareDatetime | None = None
    metadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        needed, allowed = _FIELDS.get(self.type, ((), ()))
        for field in needed:
            if getattr(self, field) is None:
                raise InvalidRecord(field, f"an event of type {self.type!r} needs it")
        for field in _SAYING:
            if getattr(self, field) is not None and field not in needed and field not in allowed:
                raise InvalidRecord(field, f"an event of type {self.type!r} does not take it")
        return self


_SAYING = ("value", "scale", "text", "rejected_id")
_FIELDS: dict[EventType, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "edited": (("text",), ()),
    "resolved": ((), ("value",)),
    "failed": ((), ("value",)),
    "rating": (("value", "scale"), ()),
    "reward": (("value",), ()),
    "score": (("value",), ()),
    "preferred": (("rejected_id",), ()),
    "regenerated": ((), ("rejected_id",)),
    "comment": (("comment",), ()),
}
"""By type, which of the fields that say something it needs, and which it may have."""

Said = dict[str, Any]


def _label(event: Event) -> Said:
    return {"label": event.type}


def _value(field: str, otherwise: float | None = None) -> Callable[[Event], Said]:
    return lambda event: {field: otherwise if event.value is None else event.value}


def _regenerated(event: Event) -> Said:
    return _label(event) if event.rejected_id is None else {"rejected_id": event.rejected_id}


EVENTS: dict[EventType, tuple[str, Callable[[Event], Said]]] = {
    **{name: (name, _label) for name in ("shown", "copied", "inserted", "shared", "dismissed", "reported")},
    "regenerated": ("regenerated", _regenerated),
    "edited": ("edited", lambda event: {"correction": {"role": "assistant", "content": event.text}}),
    "resolved": ("resolved", _value("reward", 1.0)),
    "failed": ("resolved", _value("reward", 0.0)),
    "thumbs_up": ("thumbs", lambda event: {"rating": 1.0, "scale": 1.0}),  # noqa: ARG005
    "thumbs_down": ("thumbs", lambda event: {"rating": 0.0, "scale": 1.0}),  # noqa: ARG005
    "rating": ("rating", lambda event: {"rating": event.value, "scale": event.scale}),
    "reward": ("reward", _value("reward")),
    "score": ("score", _value("score")),
    "preferred": ("preferred", lambda event: {"rejected_id": event.rejected_id}),
    "comment": ("comment", lambda event: {}),  # noqa: ARG005
}
"""By type, the feedback's name and what it says."""
assert EVENTS.keys() == set(get_args(EventType))

_SHARED = ("step_id", "trajectory_id", "group_id", "response_id", "author", "comment", "at")


def event_of(values: object, new_id: NewId) -> Checked:
    """An event as feedback, ready for the spool. Its id is the event's. Never raises for bad input."""
    try:
        event = checked(Event, named("event", values, new_id))
        name, said = EVENTS[event.type]
        fields = {field: getattr(event, field) for field in _SHARED}
        fields |= {"feedback_id": event.event_id, "name": event.name or name, **said(event)}
        metadata = {**(event.metadata or {}), "event": event.type}
        return entry_of(checked(Feedback, {**{k: v for k, v in fields.items() if v is not None}, "metadata": metadata}))
    except InvalidRecord as error:
        return refused("event", values, error)
