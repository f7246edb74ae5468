"""What calls continue by an id, found in the tables by an ingest that remembers nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from stepwell.sdk.records import Step
from stepwell.spool import Record
from stepwell.warehouse import Warehouse
from stepwell.warehouse._link.link import Linker
from stepwell.warehouse._link.recall_answers import RecallAnswers
from stepwell.warehouse._link.trajectories import Memories
from stepwell.warehouse._parse.records import Parsed, parse_record
from stepwell.warehouse._parse.warmed import Warmed


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def round_of(*continues: str) -> Parsed:
    """A round of one step for each."""
    parsed = Parsed()
    for number, name in enumerate(continues, 1):
        step = Step(step_id=f"new{number}", messages=[user("r")], response={"content": "b"}, continues=name)
        body = step.model_dump_json(exclude_none=True).encode()
        parse_record(Record(number, f"r{number}", "step", None, 0, b"", body), "p", lambda _: None, parsed)
    assert not parsed.quarantined
    return parsed


@pytest.fixture
def stored(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Warehouse:
    for number in range(3):
        feed.step(
            step_id=f"s{number}", trajectory_id=f"t{number}", response_id=f"r{number}", continues="conversation:c"
        )
        ingest()
    feed.step(step_id="orphan", trajectory_id="t", continues="response:late")
    feed.step(step_id="child", trajectory_id="t", continues="response:gone")
    ingest()
    feed.step(step_id="parent", trajectory_id="t", response_id="late")
    ingest()
    return warehouse


@pytest.fixture
def memories() -> Memories:
    return Memories(1 << 30)


@pytest.fixture
def fresh(stored: Warehouse, memories: Memories) -> tuple[RecallAnswers, Linker]:
    linker = Linker(memories)
    return RecallAnswers(stored.tables, linker, memories), linker


def test_answers_and_the_last_step_of_a_conversation(fresh: tuple[RecallAnswers, Linker]) -> None:
    recall, linker = fresh
    parsed = round_of("response:r1", "conversation:c", "response:nobody's", "conversation:it's")
    recall.names(parsed)
    found = [[answer.step_id for answer in linker.answers.steps(draft.step.continues)] for draft in parsed.drafts]
    assert found == [["s1"], ["s2"], [], []]
    assert linker.answers.trajectories("conversation:c") == {"t2"}


def test_what_lies_behind_the_warm_ups_of_the_round(fresh: tuple[RecallAnswers, Linker]) -> None:
    recall, linker = fresh
    parsed = round_of("response:w1")
    parsed.warmed += [
        Warmed("w1", None, (orjson.dumps(user("x")),), b"null", "response:w0"),
        Warmed("w0", None, (), b"null", "response:r0"),
    ]
    recall.names(parsed)
    assert [answer.step_id for answer in linker.answers.steps("response:w1")] == ["s0"]


def test_only_whoever_was_not_linked_still_waits(fresh: tuple[RecallAnswers, Linker]) -> None:
    recall, linker = fresh
    recall.names(Parsed())
    assert linker.answers.arrived("late") == [], "its parent came, and the event says so"
    assert linker.answers.arrived("gone") == ["child"]
    assert linker.answers.arrived("gone") == [], "once"
    assert linker.answers.arrived(None) == []


def test_whole_conversations_of_steps_that_memory_let_go_of(
    fresh: tuple[RecallAnswers, Linker], memories: Memories
) -> None:
    recall, linker = fresh
    parsed = round_of("response:r1")
    recall.names(parsed)
    recall.conversations(parsed.drafts)
    assert linker.answers.pinned == {}, "its trajectory is not in memory"
    memories.get("t1")
    recall.conversations(parsed.drafts)
    assert [len(said.messages) for said in linker.answers.pinned.values()] == [4], "with the step before it"
    linker.answers.shrink()
    assert linker.answers.pinned == {}


def test_a_conversation_that_cannot_be_restored_is_not_known(
    feed: Any,
    ingest: Callable[[], int],
    fresh: tuple[RecallAnswers, Linker],
    memories: Memories,
    stored: Warehouse,
) -> None:
    feed.step(step_id="large", trajectory_id="t9", response_id="r9", messages=[user("long " * 1000)])
    ingest()
    stored.tables["payloads"].dataset.delete("ledger IS NULL")
    stored.refresh()
    recall, linker = fresh
    parsed = round_of("response:r9", "response:r1")
    recall.names(parsed)
    for name in ("t9", "t1"):
        memories.get(name)
    recall.conversations(parsed.drafts)
    assert list(linker.answers.pinned) == ["s1"]
