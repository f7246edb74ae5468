from __future__ import annotations

from typing import Any

from stepwell.gateway._once import random_ids
from stepwell.gateway._records import Checked, Kind, entry_of, record_of
from stepwell.sdk.records import Step, Trajectory


def check(kind: Kind, values: object, marks: Any) -> Checked:
    return record_of(kind, values, marks, random_ids)


def no_marks() -> dict[str, int]:
    return {}


def never() -> dict[str, int]:
    raise AssertionError("only the end of a trajectory looks at the spools")


def test_marks_are_asked_for_only_when_a_trajectory_ends() -> None:
    assert check("step", {"prompt_ids": [1], "response_ids": [2]}, never).entries
    assert check("trajectory", {"trajectory_id": "t"}, never).entries
    (ended,) = check("trajectory", {"trajectory_id": "t", "state": "failed"}, lambda: {"p": 3}).entries
    assert b'"marks":{"p":3}' in ended.body


def test_a_refused_record_answers_with_the_id_it_came_with() -> None:
    for given, id in (({"step_id": "s"}, "s"), ({"step_id": 5}, None), ({"step_id": "x" * 300}, None), ([], None)):
        checked = check("step", given, never)
        assert checked.id == id and not checked.entries and checked.error is not None


def test_entry_ids_are_bounded_and_distinct() -> None:
    id = "x" * 256
    record: Any = Trajectory(trajectory_id=id, state="completed")
    (entry,) = entry_of(record).entries
    assert entry.id.startswith(f"trajectory.{id}.completed.") and len(entry.id) < 300
    (step,) = entry_of(Step(step_id=id, prompt_ids=[1], response_ids=[2])).entries
    assert step.id == f"step.{id}"


def test_the_clock_is_part_of_what_is_said_about_a_trajectory() -> None:
    def id(**fields: Any) -> str:
        (entry,) = check("trajectory", {"trajectory_id": "t", "state": "completed", **fields}, no_marks).entries
        return entry.id

    assert id() == id() == id(marks={"p": 1})
    assert len({id(), id(reason="x"), id(at="2026-01-01T00:00:00Z"), id(at="2026-01-01T00:00:01Z")}) == 4
