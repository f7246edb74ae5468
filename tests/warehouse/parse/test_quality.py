"""Tool errors and refusals: found where somebody says so, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from stepwell.warehouse import Warehouse
from stepwell.warehouse._parse.quality import quality_of

Message = dict[str, Any]


def said(role: str, *parts: Message) -> bytes:
    return orjson.dumps({"role": role, "content": list(parts)})


def text(value: str) -> Message:
    return {"type": "text", "text": value}


def result(**more: Any) -> Message:
    return {"type": "tool_result", "id": "c", "content": [text("out")], **more}


ANSWER = said("assistant", text("a"))
ANTHROPIC = result(extra={"is_error": True})
GEMINI = result(content=[text('{"error":"no such file"}')], extra={"functionResponse": {"name": "read"}})


@pytest.mark.parametrize(
    "part", [ANTHROPIC, result(extra={"toolResult": {"status": "error"}}), result(extra={"isError": True}), GEMINI]
)
def test_a_tool_that_failed(part: Message) -> None:
    question = said("user", text("q"))
    assert quality_of([question, ANSWER, said("tool", part)], ANSWER) == ["tool_error"]
    assert quality_of([question, ANSWER, said("tool", part), said("user", text("and?"))], b"") == ["tool_error"]
    assert quality_of([question, ANSWER, said("tool", part), ANSWER, question], ANSWER) is None, "another step's"


@pytest.mark.parametrize(
    "part",
    [
        result(),
        result(extra={"is_error": False}),
        result(extra={"toolResult": {"status": "success"}}),
        result(content=[text('{"is_error": true, "error": "x", "status": "error"}')]),
        result(content=[text('{"error": null}')], extra={"functionResponse": {"name": "read"}}),
        result(content=[text('"error"')], extra={"functionResponse": {"name": "read"}}),
        text('"tool_result" "is_error": true'),
    ],
)
def test_what_only_looks_like_it(part: Message) -> None:
    assert quality_of([said("user", part)], ANSWER) is None


def test_refusals() -> None:
    assert quality_of([], said("assistant", text("no: "), {"type": "refusal", "text": "I cannot"})) == ["refusal"]
    assert quality_of([], said("assistant", text('"type":"refusal"'))) is None
    assert quality_of([said("tool", ANTHROPIC)], said("assistant", {"type": "refusal", "text": ""})) == [
        "tool_error",
        "refusal",
    ]


def test_the_flags_of_a_step(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> None:
    parts = [{"type": "tool_result", "id": "c", "content": [text("boom")], "extra": {"is_error": True}}]
    refused = {"role": "assistant", "content": [{"type": "refusal", "text": "no"}]}
    user = {"role": "user", "content": "q"}
    feed.step(step_id="plain", messages=[user], response={"role": "assistant", "content": "a"}, finish_reason="stop")
    feed.step(step_id="refused", messages=[user], response=refused)
    feed.step(step_id="filtered", messages=[user], finish_reason="content_filter")
    feed.step(step_id="safety", messages=[user], finish_reason="SAFETY")
    feed.step(step_id="cut", messages=[user], status="truncated", finish_reason="length")
    feed.step(step_id="error", messages=[user, {"role": "tool", "content": parts}])
    feed.step(step_id="t1", trajectory_id="t", prompt_ids=[1, 2], response_ids=[3])
    feed.step(step_id="t2", trajectory_id="t", prompt_ids=[1, 2, 9, 4], response_ids=[5])
    ingest()
    flags = ("truncated", "drift", "tool_error", "refusal")
    found = warehouse.query(f"SELECT step_id, drift_at, {', '.join(flags)} FROM steps").to_pylist()
    assert {row["step_id"]: {flag for flag in flags if row[flag]} for row in found if row["step_id"][0] != "t"} == {
        "plain": set(),
        "refused": {"refusal"},
        "filtered": {"refusal"},
        "safety": {"refusal"},
        "cut": {"truncated"},
        "error": {"tool_error"},
    }
    assert all(row["drift"] is (row["drift_at"] is not None) for row in found)
    assert all(row[flag] is not None for row in found for flag in flags)
