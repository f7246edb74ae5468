from __future__ import annotations

from typing import Any, get_args

import pytest

from stepwell.gateway._events import EVENTS, EventType
from stepwell.sdk.records import Feedback

FULL: dict[str, dict[str, Any]] = {
    "edited": {"text": "better"},
    "rating": {"value": 4, "scale": 5},
    "reward": {"value": 0.5},
    "score": {"value": 2},
    "preferred": {"rejected_id": "other"},
    "comment": {"comment": "well"},
}


def feedback(api: Any, **event: Any) -> Feedback:
    answer = api.post("/events", {"event_id": "e", "step_id": "s", **event})
    assert answer.json() == {"items": [{"id": "e", "status": "accepted"}]}
    (record,) = api.records()
    assert (record.id, record.kind) == ("feedback.e", "feedback")
    return Feedback.model_validate_json(record.body)


@pytest.mark.parametrize(
    ("event", "name", "said"),
    [
        ({"type": "shown"}, "shown", {"label": "shown"}),
        ({"type": "copied"}, "copied", {"label": "copied"}),
        ({"type": "regenerated"}, "regenerated", {"label": "regenerated"}),
        ({"type": "regenerated", "rejected_id": "old"}, "regenerated", {"rejected_id": "old"}),
        ({"type": "edited", "text": "x"}, "edited", {"correction": {"role": "assistant", "content": "x"}}),
        ({"type": "resolved"}, "resolved", {"reward": 1.0}),
        ({"type": "resolved", "value": 0.7}, "resolved", {"reward": 0.7}),
        ({"type": "failed"}, "resolved", {"reward": 0.0}),
        ({"type": "thumbs_up"}, "thumbs", {"rating": 1.0, "scale": 1.0}),
        ({"type": "thumbs_down"}, "thumbs", {"rating": 0.0, "scale": 1.0}),
        ({"type": "rating", "value": 4, "scale": 5}, "rating", {"rating": 4.0, "scale": 5.0}),
        ({"type": "reward", "value": -1}, "reward", {"reward": -1.0}),
        ({"type": "preferred", "rejected_id": "r"}, "preferred", {"rejected_id": "r"}),
        ({"type": "comment", "comment": "hm"}, "comment", {"comment": "hm"}),
    ],
)
def test_what_each_event_means(api: Any, event: dict[str, Any], name: str, said: dict[str, Any]) -> None:
    found = feedback(api, **event, author="u1", metadata={"page": 3})
    assert (found.name, found.author, found.step_id) == (name, "u1", "s")
    assert found.metadata == {"page": 3, "event": event["type"]}
    assert said.items() <= found.model_dump(exclude_none=True).items()


def test_every_type_has_its_meaning(api: Any) -> None:
    assert set(EVENTS) == set(get_args(EventType))
    batch = [{"event_id": kind, "response_id": "r", "type": kind, **FULL.get(kind, {})} for kind in EVENTS]
    items = api.post("/events", batch).json()["items"]
    assert [item["status"] for item in items] == ["accepted"] * len(EVENTS)


def test_a_name_of_ones_own_and_a_target_of_any_kind(api: Any) -> None:
    found = feedback(
        api, step_id=None, trajectory_id="t", type="resolved", name="ticket closed", at="2026-01-01T00:00:00Z"
    )
    assert (found.name, found.target) == ("ticket closed", ("trajectory", "t")) and found.at is not None


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"type": "exploded"}, "type"),
        ({}, "type"),
        ({"type": "edited"}, "text"),
        ({"type": "rating", "value": 4}, "scale"),
        ({"type": "rating", "value": 6, "scale": 5}, "scale"),
        ({"type": "rating", "value": True, "scale": 5}, "value"),
        ({"type": "reward"}, "value"),
        ({"type": "reward", "value": "1"}, "value"),
        ({"type": "shown", "value": 1}, "value"),
        ({"type": "shown", "text": "x"}, "text"),
        ({"type": "preferred"}, "rejected_id"),
        ({"type": "shown", "response_id": "r"}, "step_id"),
        ({"type": "shown", "at": "2026-01-01T00:00:00"}, "at"),
        ({"type": "shown", "nonsense": 1}, "nonsense"),
        ({"type": "shown", "metadata": {"x": 2**64}}, "metadata"),
        ({"type": "comment"}, "comment"),
    ],
)
def test_what_is_wrong_is_named(api: Any, event: dict[str, Any], field: str) -> None:
    answer = api.post("/events", {"step_id": "s", "event_id": "e", **event})
    (item,) = answer.json()["items"]
    assert (answer.status_code, item["field"], item["id"]) == (422, field, "e")
    assert api.records() == []


def test_the_same_event_twice(api: Any) -> None:
    event = {"event_id": "e", "step_id": "s", "type": "copied"}
    items = api.post("/events", [event, event]).json()["items"]
    assert [item["status"] for item in items] == ["accepted", "duplicate"] and len(api.records()) == 1
