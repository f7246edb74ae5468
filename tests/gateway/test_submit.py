from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.gateway import GatewayConfig
from stepwell.sdk.records import Feedback, Step, Trajectory

STEP: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3]}


def test_one_step(api: Any) -> None:
    answer = api.post("/steps", {**STEP, "step_id": "s", "reward": 1})
    assert (answer.status_code, answer.json()) == (200, {"items": [{"id": "s", "status": "accepted"}]})
    (record,) = api.records()
    assert (record.id, record.kind, record.head) == ("step.s", "step", b'{"format":1}')
    assert Step.model_validate_json(record.body) == Step(step_id="s", reward=1, **STEP)


def test_an_id_is_made_up_where_none_is_given(api: Any) -> None:
    (item,) = api.post("/steps", STEP).json()["items"]
    assert api.bodies()[0]["step_id"] == item["id"]


def test_feedback_and_trajectories(api: Any) -> None:
    assert api.post("/feedback", [{"feedback_id": "f", "step_id": "s", "reward": 1}]).status_code == 200
    assert api.post("/trajectories", {"trajectory_id": "t", "group_id": "g"}).status_code == 200
    feedback, trajectory = api.records()
    assert (feedback.id, feedback.kind) == ("feedback.f", "feedback")
    assert Feedback.model_validate_json(feedback.body).reward == 1
    assert trajectory.id.startswith("trajectory.t.open.") and trajectory.kind == "trajectory"
    assert Trajectory.model_validate_json(trajectory.body).marks is None


def test_one_bad_record_does_not_reject_its_neighbours(api: Any) -> None:
    answer = api.post(
        "/steps", [{**STEP, "step_id": "a"}, {**STEP, "step_id": "b", "logprobs": []}, 7, {**STEP, "step_id": "c"}]
    )
    assert answer.status_code == 200
    items = answer.json()["items"]
    assert [item["status"] for item in items] == ["accepted", "refused", "refused", "accepted"]
    assert (items[1]["id"], items[1]["field"]) == ("b", "logprobs") and "0 of them for 1" in items[1]["message"]
    assert items[2]["id"] is None
    assert [step.step_id for step in api.steps()] == ["a", "c"]


def test_all_refused_is_a_problem_with_the_same_items(api: Any) -> None:
    answer = api.post("/steps", [{**STEP, "reward": "x"}, {}])
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    problem = answer.json()
    assert problem["detail"].startswith("reward: ") and len(problem["items"]) == 2 and api.records() == []


def test_an_empty_array_is_fine(api: Any) -> None:
    assert api.post("/steps", []).json() == {"items": []}


def test_duplicates_are_told_apart(api: Any) -> None:
    def statuses(*ids: str) -> list[str]:
        answer = api.post("/steps", [{**STEP, "step_id": id} for id in ids])
        return [item["status"] for item in answer.json()["items"]]

    assert statuses("a", "b", "a") == ["accepted", "accepted", "duplicate"]
    assert statuses("b") == ["duplicate"]
    assert statuses("a", "c", "b") == ["duplicate", "accepted", "duplicate"]
    assert [step.step_id for step in api.steps()] == ["a", "b", "c"]


def test_a_batch_that_is_too_large(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_batch=2))
    assert api.post("/steps", [STEP] * 2).status_code == 200
    answer = api.post("/steps", [STEP] * 3)
    assert answer.status_code == 413 and "gateway.max_batch" in answer.json()["detail"]


def test_a_full_spool_is_said_and_nothing_kept(api_of: Any) -> None:
    api = api_of(max_spool_bytes=1000)
    answer = api.post("/steps", [{**STEP, "metadata": {"x": "y" * 1000}}, STEP])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert api.records() == []
    assert api.post("/steps", STEP).status_code == 200


def test_completing_a_trajectory(api: Any) -> None:
    api.post("/steps", STEP)
    api.post("/steps", STEP)
    answer = api.post("/trajectories/t/complete")
    assert answer.json() == {"items": [{"id": "t", "status": "accepted"}]}
    end = api.bodies()[-1]
    assert (end["trajectory_id"], end["state"], end["marks"]) == ("t", "completed", {api.spool.producer: 2})
    api.post("/trajectories/t2/complete", {"state": "failed", "reason": "exit code 3", "metadata": {"a": 1}})
    assert api.bodies()[-1].items() >= {"state": "failed", "reason": "exit code 3", "metadata": {"a": 1}}.items()


def test_completing_carries_every_producers_mark(api: Any) -> None:
    from stepwell.spool import Entry, Spool

    with Spool(api.folder / "proxy-1.db") as other:
        other.append([Entry(f"x{number}", "request") for number in range(5)])
        producer = other.producer
    api.post("/trajectories", {"trajectory_id": "t", "state": "completed", "marks": {"far": 9, producer: 1}})
    assert api.bodies()[-1]["marks"] == {producer: 5, api.spool.producer: 0, "far": 9}


def test_repeating_an_end_is_a_duplicate_and_another_end_is_not(api: Any) -> None:
    def status(path: str, body: Any = None) -> str:
        return str(api.post(path, body).json()["items"][0]["status"])

    assert status("/trajectories", {"trajectory_id": "t", "at": "2026-01-01T00:00:00Z"}) == "accepted"
    assert status("/trajectories/t/complete") == "accepted"
    api.post("/steps", STEP)  # the marks differ now, the words do not
    assert status("/trajectories/t/complete") == "duplicate"
    assert status("/trajectories/t/complete", {"state": "failed"}) == "accepted"
    assert status("/trajectories", {"trajectory_id": "t", "at": "2026-01-01T00:00:00Z"}) == "duplicate"
    assert status("/trajectories", {"trajectory_id": "t", "at": "2026-01-02T00:00:00Z"}) == "accepted"  # opened again


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"state": "open"}, "state"),
        ({"state": 1}, "state"),
        ({"trajectory_id": "u"}, "trajectory_id"),
        ({"metadata": 1}, "metadata"),
    ],
)
def test_a_bad_end_is_refused(api: Any, body: Any, field: str) -> None:
    answer = api.post("/trajectories/t/complete", body)
    problem = answer.json()
    assert answer.status_code == 422 and field in (problem.get("field"), problem.get("items", [{}])[0].get("field"))
    assert api.post("/trajectories/t/complete", [1]).status_code == 400
    assert api.records() == []


def test_bad_ids_in_the_path(api: Any) -> None:
    assert api.post("/trajectories/a%0Ab/complete").status_code == 422
    assert api.post("/trajectories/" + "x" * 300 + "/complete").status_code == 422


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=10), inner, max_size=5),
    max_leaves=20,
)
FIELDS = sorted({*Step.model_fields, *Feedback.model_fields, *Trajectory.model_fields, "unknown"})
RECORDS = VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6).map(lambda more: {**STEP, **more})
PATHS = st.sampled_from(
    [
        "/steps",
        "/feedback",
        "/trajectories",
        "/trajectories/t/complete",
        "/flush",
        "/exchanges",
        "/events",
        "/webhooks/x",
    ]
)
ANYTHING = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@ANYTHING
@given(path=PATHS, value=RECORDS | st.lists(RECORDS, max_size=4))
def test_no_value_is_a_server_error(api: Any, path: str, value: Any) -> None:
    if path == "/flush" and isinstance(value, dict) and set(value) <= {"timeout"}:
        return  # a valid one waits for what earlier examples had accepted, which nobody commits here
    body = json.dumps(value).encode()  # NaN, infinities and lone surrogates included
    answer = api.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in ((401,) if path == "/webhooks/x" else (200, 400, 413, 422))
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json" and answer.json()["detail"]


@ANYTHING
@given(path=PATHS, body=st.binary(min_size=1, max_size=200))
def test_no_bytes_are_a_server_error(api: Any, path: str, body: bytes) -> None:
    if path == "/flush" and body.strip() == b"{}":
        return  # valid, as above
    answer = api.post(path, content=body, headers={"content-type": "application/json"})
    assert 200 <= answer.status_code < 500


@ANYTHING
@given(metadata=st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_taken_is_kept_as_it_was(api: Any, metadata: dict[str, Any]) -> None:
    body = json.dumps({**STEP, "metadata": metadata}).encode()
    answer = api.post("/steps", content=body, headers={"content-type": "application/json"})
    if answer.status_code == 200:
        kept = api.bodies()[-1]
        assert kept["metadata"] == metadata and kept["step_id"] == answer.json()["items"][0]["id"]
    else:
        assert answer.json()["items"][0]["field"].startswith("metadata")
