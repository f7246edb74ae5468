"""What is remembered, and what is forgotten when there is too much."""

from __future__ import annotations

import numpy as np
import pytest

from stepwell.warehouse._encode.delta import Base
from stepwell.warehouse._link.trajectories import Facts, Memories, Memory, Place, most_of
from stepwell.warehouse._parse.said import declared_version


def base(name: str, size: int = 10_000) -> Base:
    return Base(name, 0, np.zeros(size, np.int32), (b"x" * size,), b"null")


def remember(memories: Memories, trajectory: str, step: str, size: int = 10_000) -> None:
    one = base(step, size)
    memories.get(trajectory).remember(Place(step, 0), [f"key-{step}"], one)
    memories.grew(trajectory, most_of(one, one.conversation))


@pytest.mark.parametrize(
    ("said", "label", "declared", "version"),
    [
        (None, None, 3, 3),
        (2, None, 3, 2),
        (0, "0", 3, 0),
        (None, "a", 3, 3),
        (None, "4..5", 3, None),
        (None, None, None, None),
    ],
)
def test_what_is_declared_fills_in_what_the_engine_does_not_say(
    said: int | None, label: str | None, declared: int | None, version: int | None
) -> None:
    assert declared_version(said, label, declared) == version


def test_a_step_is_remembered_by_its_conversation() -> None:
    memory = Memory()
    memory.remember(Place("a", 0), ["k"], base("a"))
    memory.remember(Place("b", 1), [None], base("b"))
    assert memory.places == {"k": Place("a", 0)}
    assert memory.turns == {"a": 0, "b": 1}
    assert [item.step_id for item in memory.bases] == ["a", "b"]


def test_a_step_that_cannot_be_a_base_is_still_somebodys_parent() -> None:
    memory = Memory()
    memory.remember(Place("a", 0), ["k"], None, said=True)
    assert (memory.places, list(memory.bases), memory.said) == ({"k": Place("a", 0)}, [], {})


def test_only_recent_steps_serve_as_bases() -> None:
    memory = Memory()
    for number in range(40):
        memory.remember(Place(str(number), number), [str(number)], base(str(number)))
    assert [item.step_id for item in memory.bases] == [str(number) for number in range(24, 40)]
    assert len(memory.places) == 40, "any of them can still be continued"


def test_the_longest_of_the_bases_is_known() -> None:
    memory = Memory()
    for number, size in enumerate([3, 50, 7, *range(20), 60, *range(30, 4, -1)]):
        memory.remember(Place(str(number), number), [], base(str(number), size))
        assert memory.longest == max(len(one.tokens) for one in memory.bases if one.tokens is not None)


def test_the_least_recently_used_is_forgotten() -> None:
    memories = Memories(225_000)
    for name in ("a", "b", "c"):
        remember(memories, name, name)
    memories.shrink()
    assert all(name in memories for name in ("a", "b", "c"))
    memories.get("a")
    for number in range(2):
        remember(memories, "d", f"d{number}")
    assert "b" in memories, "nothing is forgotten in the middle of a round"
    memories.shrink()
    assert [name in memories for name in ("a", "b", "c", "d")] == [True, False, True, True]


def test_what_changed_is_weighed_again() -> None:
    memories = Memories(120_000)
    remember(memories, "a", "1")
    memories.grew("a", 1_000_000)
    memories.shrink()
    assert "a" in memories, "what is too much is found out by weighing"
    remember(memories, "a", "2", 40_000)
    memories.shrink()
    assert "a" not in memories


def test_cleared_is_empty() -> None:
    memories = Memories(80_000)
    memories.get("a").facts = Facts(prompt_id="p")
    remember(memories, "a", "1")
    memories.clear()
    assert "a" not in memories
    assert memories.get("a") == Memory()
    remember(memories, "b", "1")
    memories.shrink()
    assert "b" in memories, "what was cleared weighs nothing any more"
