"""Records as rows, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.warehouse._ingest.rows import rows_of, step_rows
from stepwell.warehouse._parse.events import Origin, feedback_row, reward_row, trajectory_row
from stepwell.warehouse._tables.schema import EVENTS, STEPS

AT = datetime(2026, 1, 2, tzinfo=UTC)
ORIGIN = Origin("p", 7, AT)
EVERYTHING: dict[str, Any] = {
    "step_id": "s",
    "call_id": "c",
    "trajectory_id": "t",
    "prompt_id": "p",
    "group_id": "g",
    "split": "eval",
    "parent_id": "before",
    "messages": [{"role": "user", "content": "q"}],
    "response": "a",
    "tools": [{"name": "calc"}],
    "sampling": {"temperature": 1.0, "b": None, "a": [1]},
    "finish_reason": "length",
    "status": "truncated",
    "usage": {"prompt_tokens": 2, "completion_tokens": 3},
    "prompt_ids": [1, 2],
    "response_ids": [3],
    "logprobs": [-0.5],
    "logprobs_mode": "processed",
    "source": "tokenizer:x",
    "fingerprint": "f",
    "policy": "pi",
    "policy_version": -(2**63),
    "policy_label": "v1",
    "model": "m",
    "model_asked": "n",
    "response_id": "r",
    "dialect": "openai.chat",
    "engine": "e",
    "trainable": False,
    "untrainable_reason": "because",
    "started_at": AT,
    "first_byte_at": AT,
    "first_token_at": AT,
    "finished_at": AT,
    "metadata": {"k": "ü", "tags": ["x"]},
    "extra": {"z": 1, "a": 2},
}


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_every_field_of_a_step_arrives(linked: Callable[[list[Step]], pa.Table]) -> None:
    table = linked([Step(**EVERYTHING)])
    assert table.schema.equals(STEPS.schema, check_metadata=True)
    [row] = table.to_pylist()
    texts = {"sampling", "usage", "metadata", "extra", "tools"}
    stored = {
        name: value for name, value in EVERYTHING.items() if name not in texts | {"messages", "response", "prompt_ids"}
    }
    assert stored.items() <= row.items()
    for name in texts:
        assert row[name] == json.dumps(EVERYTHING[name], separators=(",", ":"), ensure_ascii=False), (
            "keys keep their order"
        )
    assert row["prompt_suffix"] == [1, 2]
    assert set(Step.model_fields) - set(row) == {"messages", "prompt_ids", "reward"}
    assert (row["producer"], row["sequence"], row["ledger"]) == ("p", 1, None)
    assert (row["tags"], row["input_tokens"], row["output_tokens"]) == (["x"], 2, 3)
    assert (row["drift_at"], row["drift_cause"]) == (None, "parent not in memory")


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"prompt_ids": [1, 2, 3], "response_ids": [4, 5]}, (3, 2)),
        ({"prompt_ids": [1], "response_ids": [2, 3], "usage": {"completion_tokens": 9}}, (1, 9)),
        ({"prompt_ids": [1], "response_ids": [2], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}, (7, 0)),
        ({"messages": [{"role": "user", "content": "q"}], "response": "a"}, (None, None)),
    ],
)
def test_where_nobody_counted_tokens_the_ids_are(
    linked: Callable[[list[Step]], pa.Table], fields: dict[str, Any], counted: tuple[int | None, int | None]
) -> None:
    step = Step(step_id="s", dialect="openai.chat", **fields)
    for steps in ([step], [step, Step(step_id="other", dialect="openai.chat", prompt_ids=[1], response_ids=[2])]):
        row = linked(steps).to_pylist()[0]
        assert (row["input_tokens"], row["output_tokens"]) == counted


def test_a_text_step_has_no_tokens(linked: Callable[[list[Step]], pa.Table]) -> None:
    [row] = linked([Step(step_id="s", messages=[{"role": "user", "content": "q"}], response=says("a"))]).to_pylist()
    names = ("prompt_suffix", "response_ids", "logprobs", "prompt_length", "source")
    assert [row[name] for name in names] == [None] * 5
    assert row["split"] is None, "nobody said: the view's default is not a fact"


def test_no_steps() -> None:
    assert step_rows([]).schema.equals(STEPS.schema)


@pytest.mark.parametrize(
    ("said", "kind", "value", "text", "payload"),
    [
        ({"reward": 0.0}, "reward", 0.0, None, None),
        ({"score": -1.5, "comment": "meh"}, "score", -1.5, "meh", {"comment": "meh"}),
        ({"rating": 3, "scale": 5}, "rating", 3.0, None, {"scale": 5.0}),
        ({"label": "bad", "comment": "c"}, "label", None, "bad", {"comment": "c"}),
        ({"rejected_id": "other"}, "preference", None, "other", None),
        ({"retract": "reward", "comment": "c"}, "reward", None, "c", {"retract": "reward", "comment": "c"}),
        ({"trainable": False, "comment": "c"}, "trainable", 0.0, "c", {"comment": "c"}),
        ({"trainable": True}, "trainable", 1.0, None, None),
        ({"undo": "f0", "comment": "c"}, "undo", None, "f0", {"comment": "c"}),
        ({"comment": "hm", "metadata": {"a": 1}}, "comment", None, "hm", {"comment": "hm", "metadata": {"a": 1}}),
        ({"correction": "so"}, "correction", None, None, {"correction": {"role": "assistant", "content": "so"}}),
    ],
)
def test_feedback(said: dict[str, Any], kind: str, value: float | None, text: str | None, payload: Any) -> None:
    row = feedback_row(Feedback(feedback_id="f", step_id="s", author="me", **said), ORIGIN)
    assert (row["event_id"], row["kind"], row["name"], row["author"]) == ("f", kind, kind, "me")
    assert (row["target_kind"], row["target_id"]) == ("step", "s")
    assert (row["value"], row["text"]) == (value, text)
    assert (None if row["payload"] is None else json.loads(row["payload"])) == payload
    assert (row["created_at"], row["producer"], row["sequence"]) == (AT, "p", 7)
    assert rows_of(EVENTS, [row])["event_id"].to_pylist() == ["f"]


@pytest.mark.parametrize("target", ["step", "trajectory", "group", "response"])
def test_targets(target: str) -> None:
    row = feedback_row(Feedback.model_validate({f"{target}_id": "x", "reward": 1, "name": "n"}), ORIGIN)
    assert (row["target_kind"], row["target_id"], row["name"]) == (target, "x", "n")


def test_what_was_said_at_a_time_keeps_it() -> None:
    said = datetime(2020, 1, 1, tzinfo=UTC)
    assert feedback_row(Feedback(step_id="s", reward=1, at=said), ORIGIN)["created_at"] == said
    assert trajectory_row(Trajectory(at=said), "e", ORIGIN)["created_at"] == said


def test_trajectories() -> None:
    record = Trajectory(
        trajectory_id="t", prompt_id="p", state="failed", reason="why", marks={"x": 3}, metadata={"k": 1}
    )
    row = trajectory_row(record, "event", ORIGIN)
    assert (row["event_id"], row["kind"], row["target_id"], row["text"]) == ("event", "trajectory.failed", "t", "why")
    assert json.loads(row["payload"]) == {
        "prompt_id": "p",
        "split": "train",
        "reason": "why",
        "marks": {"x": 3},
        "metadata": {"k": 1},
    }


def test_the_reward_of_the_longest_step_id() -> None:
    step = Step(step_id="s" * 256, messages=[], response=says("a"), reward=2.0)
    row = reward_row(step, ORIGIN)
    assert (row["event_id"], row["target_id"], row["value"]) == ("s" * 256 + ".reward", "s" * 256, 2.0)
