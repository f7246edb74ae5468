"""A reward is a finite number or absent: whatever else a client sends as one is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

VALUES = ["NaN", "Infinity", "-Infinity", "1e999", '"nan"', '""', '"1.0"', "true", "false", "[1]", "{}"]


@pytest.mark.parametrize("value", VALUES)
def test_what_is_no_number_is_refused_and_its_neighbours_are_taken(api: Any, value: str) -> None:
    step = f'{{"step_id":"bad","prompt_ids":[1],"response_ids":[2],"reward":{value}}}'
    fine = '{"step_id":"good","prompt_ids":[1],"response_ids":[2],"reward":-1}'
    feedback = f'{{"feedback_id":"bad","step_id":"s","reward":{value}}}'
    zero = '{"feedback_id":"good","step_id":"s","reward":0.0}'
    for path, bad, good in (("/steps", step, fine), ("/feedback", feedback, zero)):
        answer = api.post(path, content=f"[{bad},{good}]".encode(), headers={"content-type": "application/json"})
        assert answer.status_code == 200
        refused, taken = answer.json()["items"]
        assert (refused["status"], refused["field"], taken["status"]) == ("refused", "reward", "accepted")
        assert refused["message"]
    assert [step.step_id for step in api.steps()] == ["good"] and api.records()[-1].id == "feedback.good"


@pytest.mark.parametrize("field", ["score", "rating", "scale"])
@pytest.mark.parametrize("value", ["NaN", "true", '"4"'])
def test_other_numbers_are_numbers_too(api: Any, field: str, value: str) -> None:
    given = {"score": "1", "rating": "4", "scale": "5", field: value}
    names = ("score",) if field == "score" else ("rating", "scale")
    body = ",".join(f'"{name}":{given[name]}' for name in names)
    answer = api.post(
        "/feedback", content=f'{{"step_id":"s",{body}}}'.encode(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422 and answer.json()["items"][0]["field"] == field
    assert api.records() == []


@pytest.mark.parametrize("reward", ["", ',"reward":null'])
def test_an_absent_reward_is_absent(api: Any, reward: str) -> None:
    step = f'{{"step_id":"s","prompt_ids":[1],"response_ids":[2]{reward}}}'
    answer = api.post("/steps", content=step.encode(), headers={"content-type": "application/json"})
    assert answer.json()["items"][0]["status"] == "accepted"
    assert "reward" not in api.bodies()[0]
    nothing = api.post(
        "/feedback", content=f'{{"step_id":"s"{reward}}}'.encode(), headers={"content-type": "application/json"}
    )
    assert nothing.status_code == 422 and "says nothing" in nothing.json()["items"][0]["message"]
