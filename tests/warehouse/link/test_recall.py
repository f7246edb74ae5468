"""A new ingest goes on where the one before it stopped."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from stepwell.sdk.records import Step
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest import round as round_module
from stepwell.warehouse._ingest.tombstones import bury
from stepwell.warehouse._link import link as link_module
from stepwell.warehouse._link import recall as recall_module
from stepwell.warehouse._link.link import INFERRED, Linked, Linker
from stepwell.warehouse._link.recall import Recall
from stepwell.warehouse._link.trajectories import Memories

Restarted = Callable[[], int]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def steps_of(place: Any) -> dict[str, dict[str, Any]]:
    columns = "step_id, trajectory_id, parent_id, turn, group_id, prompt_id, split, policy_version"
    warehouse = place.open()
    rows = warehouse.query(f"SELECT {columns} FROM steps").to_pylist()
    stored = warehouse.tables["steps"].dataset.to_table(columns=["step_id", "base_id"]).to_pylist()
    bases = {row["step_id"]: row["base_id"] for row in stored}
    return {row["step_id"]: row | {"base_id": bases[row["step_id"]]} for row in rows}


@pytest.mark.parametrize("trajectory", ["t", None])
def test_a_conversation_goes_on(feed: Any, local: Any, restarted: Restarted, trajectory: str | None) -> None:
    """The parent, the turn, and what to be a difference to; also in a trajectory that nobody named."""
    talk, tokens, made = [user("q")], list(range(50)), []
    for turn in range(4):
        response = [100 + turn, 200 + turn]
        made.append(feed.exchange(talk, f"a{turn}", trajectory, ids=(tokens, response)))
        talk = [*talk, said(f"a{turn}"), user(f"r{turn}")]
        tokens = [*tokens, *response, 7]
        restarted()
    found = steps_of(local)
    assert [found[step]["parent_id"] for step in made] == [None, *made[:-1]]
    assert [found[step]["base_id"] for step in made] == [None, *made[:-1]]
    assert [found[step]["turn"] for step in made] == [0, 1, 2, 3]
    assert len({found[step]["trajectory_id"] for step in made}) == 1
    whole = local.open().steps(columns=["step_id", "prompt_ids"]).read_all()
    assert max(len(prompt) for prompt in whole["prompt_ids"].to_pylist()) == 50 + 3 * 3


def test_anonymous_conversations_stay_apart(feed: Any, local: Any, restarted: Restarted) -> None:
    roots = [feed.exchange([user(f"task {n}")], "a") for n in range(3)]
    named = feed.exchange([user("task 9")], "a", "named")
    restarted()
    leaves = [feed.exchange([user(f"task {n}"), said("a"), user("r")], "b") for n in (2, 0, 1)]
    stranger = feed.exchange([user("task 9"), said("a"), user("r")], "b")
    restarted()
    found = steps_of(local)
    assert [found[leaf]["parent_id"] for leaf in leaves] == [roots[2], roots[0], roots[1]]
    assert [found[leaf]["trajectory_id"] for leaf in leaves] == [found[roots[n]]["trajectory_id"] for n in (2, 0, 1)]
    assert found[named]["trajectory_id"] == "named"
    assert found[stranger]["trajectory_id"].startswith(INFERRED)
    assert found[stranger]["parent_id"] is None


def test_many_anonymous_conversations_at_once(feed: Any, local: Any, restarted: Restarted) -> None:
    """More keys than go into a filter."""
    roots = [feed.step(messages=[user(f"task {n}")]) for n in range(150)]
    restarted()
    leaves = [feed.step(messages=[user(f"task {n}"), said("a"), user("r")], response="b") for n in range(150)]
    restarted()
    found = steps_of(local)
    assert [found[leaf]["parent_id"] for leaf in leaves] == roots


def test_the_openings_facts_are_remembered(feed: Any, local: Any, restarted: Restarted) -> None:
    feed.trajectory("t", prompt_id="p", group_id="g", split="eval", policy_version=7)
    restarted()
    step = feed.exchange([user("q")], "a", "t")
    own = feed.step(trajectory_id="t", group_id="own", policy_version=8)
    restarted()
    found = steps_of(local)
    names = ("prompt_id", "group_id", "split", "policy_version")
    assert tuple(found[step][name] for name in names) == ("p", "g", "eval", 7)
    assert tuple(found[own][name] for name in names) == ("p", "own", "eval", 8)
    raw = local.open().tables["steps"].dataset.to_table(columns=["step_id", *names], filter=f"step_id = '{step}'")
    assert tuple(raw.to_pylist()[0][name] for name in names) == ("p", "g", "eval", 7), "stored with the step"


def test_the_last_opening_counts(feed: Any, local: Any, restarted: Restarted) -> None:
    feed.trajectory("t", group_id="old")
    restarted()
    feed.trajectory("t", group_id="new")
    restarted()
    step = feed.exchange([user("q")], "a", "t")
    restarted()
    assert steps_of(local)[step]["group_id"] == "new"


def test_what_was_forgotten_for_room_is_recalled(
    feed: Any, local: Any, spools: Any, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_module, "MEMORY_BYTES", 1)
    worker = Ingest(local.open(), spools)
    made = []
    for turn in range(3):
        history = [message for n in range(turn) for message in (user(f"q{n}"), said(f"a{n}"))]
        made.append([feed.exchange([*history, user(f"q{turn}")], f"a{turn}", name) for name in ("t", "u", None)])
        drained(worker)
    found = steps_of(local)
    for before, after in itertools.pairwise(made):
        assert [found[step]["parent_id"] for step in after[:2]] == before[:2]


def test_nothing_goes_on_from_a_step_that_is_about_to_be_deleted(feed: Any, local: Any, restarted: Restarted) -> None:
    """Its tombstone comes first, and its row is there for a while."""
    first = feed.exchange([user("q0")], "a0", "t")
    second = feed.exchange([user("q0"), said("a0"), user("q1")], "a1", "t")
    restarted()
    bury(local.open().tables["forgotten"], {"step": [second]})
    third = feed.exchange([user("q0"), said("a0"), user("q1"), said("a1"), user("q2")], "a2", "t")
    restarted()
    assert steps_of(local)[third]["parent_id"] == first
    table = local.open().tables["steps"].dataset
    (row,) = table.to_table(columns=["base_id"], filter=f"step_id = '{third}'").to_pylist()
    assert row["base_id"] == first


LARGE = user("long " * 1000)


def talk(turns: int, first: dict[str, Any]) -> list[Step]:
    """A conversation of one trajectory."""
    said, ids, steps = [first], list(range(50)), []
    for turn in range(turns):
        step = Step(step_id=str(turn), trajectory_id="t", prompt_ids=ids, response_ids=[7, 8, turn], messages=said)
        steps.append(step.model_copy(update={"response": answer(f"a{turn}")}))
        said, ids = [*said, answer(f"a{turn}"), user(f"q{turn}")], [*ids, 7, 8, turn, 9]
    return steps


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def recalled(warehouse: Warehouse) -> tuple[Linker, Memories]:
    """A linker that remembers nothing but what it was told to read."""
    memories = Memories(1 << 30)
    linker = Linker(memories)
    Recall(warehouse.tables, linker, memories).trajectories(["t"])
    return linker, memories


def test_what_is_recalled_is_what_was_remembered(
    warehouse: Warehouse, put: Callable[[list[Step]], None], placed: Callable[[list[Step]], list[Linked]]
) -> None:
    steps = talk(25, LARGE)
    put(steps[:24])
    last = placed(steps)[24]
    linker, memories = recalled(warehouse)
    bases = memories.get("t").bases
    assert [base.step_id for base in bases] == [str(turn) for turn in range(8, 24)]
    assert all(base.tokens is not None and len(base.tokens) == base.prompt_length + 3 for base in bases)
    assert all(ours is theirs for ours, theirs in zip(bases[0].conversation, bases[-1].conversation, strict=False))
    found = linker.place(last.draft)
    assert (found.parent_id, found.turn, found.drift, found.texts) == (last.parent_id, 24, None, last.texts)
    assert (found.delta.base_id, found.delta.depth, found.delta.prompt_ops) == ("23", 24, last.delta.prompt_ops)


@pytest.mark.parametrize("gone", ["a base", "a payload"])
def test_what_cannot_be_restored_is_no_base(
    warehouse: Warehouse, put: Callable[[list[Step]], None], placed: Callable[[list[Step]], list[Linked]], gone: str
) -> None:
    """The step that comes next is stored whole, and still knows whom it continues."""
    steps = talk(4, LARGE)
    put(steps[:3])
    if gone == "a base":
        warehouse.tables["steps"].dataset.delete("step_id = '0'")
    else:
        warehouse.tables["payloads"].dataset.delete("ledger IS NULL")
    warehouse.refresh()
    linker, memories = recalled(warehouse)
    assert not memories.get("t").bases
    found = linker.place(placed(steps)[3].draft)
    assert (found.parent_id, found.turn, found.delta.base_id) == ("2", 3, None)
    assert found.drift == (None, "parent not in memory")
    assert found.texts.payload_ids is not None, "it brings its own again"


def several(turns: int, *names: str) -> list[Step]:
    """As many conversations, taking turns."""
    each = [
        [
            step.model_copy(update={"step_id": f"{name}{step.step_id}", "trajectory_id": name})
            for step in talk(turns, LARGE)
        ]
        for name in names
    ]
    return [step for steps in zip(*each, strict=True) for step in steps]


def test_trajectories_are_read_a_few_at_a_time(
    warehouse: Warehouse, put: Callable[[list[Step]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(several(5, *"abcdef"))
    read: list[list[str]] = []
    stored_of = vars(recall_module)["stored_of"]

    def counted(dataset: Any, ids: Iterable[str], columns: Sequence[str]) -> Any:
        read.append(sorted(ids))
        return stored_of(dataset, read[-1], columns)

    monkeypatch.setattr(recall_module, "stored_of", counted)
    monkeypatch.setattr(recall_module, "_AT_ONCE", 2 * 5 * 5)
    memories = Memories(1 << 30)
    Recall(warehouse.tables, Linker(memories), memories).trajectories([*"abcdef", "new"])
    assert sorted(len(ids) for ids in read) == [2, 2, 2] and sorted(id_ for ids in read for id_ in ids) == [*"abcdef"]
    for name in "abcdef":
        assert [base.step_id for base in memories.get(name).bases] == [f"{name}{turn}" for turn in range(5)]
    assert "new" in memories, "that it is not there is known, too"


def test_of_many_trajectories_only_a_few_prompts_come_back_as_ids(
    warehouse: Warehouse, put: Callable[[list[Step]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(several(6, *"ab"))
    monkeypatch.setattr(recall_module, "_BASES", 4)
    memories = Memories(1 << 30)
    Recall(warehouse.tables, Linker(memories), memories).trajectories([*"ab"])
    for name in "ab":
        bases = memories.get(name).bases
        assert [base.tokens is not None for base in bases] == [False] * 4 + [True] * 2
        assert len(bases[-1].conversation) == 12 and len(memories.get(name).turns) == 6


def test_tools_are_one_object(
    warehouse: Warehouse, put: Callable[[list[Step]], None], placed: Callable[[list[Step]], list[Linked]]
) -> None:
    """A list of tools is as large as a prompt, and every step of a trajectory has the same."""
    tools = [{"type": "function", "function": {"name": "look", "description": "d" * 100}}]
    steps = [step.model_copy(update={"tools": tools}) for step in talk(6, LARGE)]
    put(steps[:5])
    linker, memories = recalled(warehouse)
    linker.place(placed(steps)[5].draft)
    assert len({id(base.tools) for base in memories.get("t").bases}) == 1
    fresh = Memories(1 << 30)
    other = Linker(fresh)
    for item in placed(steps):
        other.place(item.draft)
    assert len({id(base.tools) for base in fresh.get("t").bases}) == 1


def test_only_what_a_prompt_may_go_on_from_is_asked_for(
    feed: Any, local: Any, spools: Any, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conversations end with an answer; and of one that is in memory nothing is asked."""
    asked: list[int] = []
    matching = vars(recall_module)["matching"]

    def counted(dataset: Any, column: str, values: Sequence[str], columns: list[str]) -> Any:
        if column == "conversation_key":
            asked.append(len(values))
        return matching(dataset, column, values, columns)

    monkeypatch.setattr(recall_module, "matching", counted)
    worker, talk, made = Ingest(local.open(), spools), [user("q")], list[str]()
    for turn in range(4):
        made.append(feed.exchange(talk, f"a{turn}"))
        talk = [*talk, said(f"a{turn}"), user(f"r{turn}"), user("and more")]
        drained(worker)
    assert asked == []
    drained(Ingest(local.open(), spools))
    made.append(feed.exchange(talk, "last"))
    drained(Ingest(local.open(), spools))
    assert asked == [4], "four answers, of thirteen messages"
    found = steps_of(local)
    assert [found[step]["parent_id"] for step in made] == [None, *made[:-1]]


def test_names_are_kept_until_their_steps_are_committed(
    feed: Any, local: Any, spools: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is forgotten is looked up in the tables, which do not have it before."""
    monkeypatch.setattr(link_module, "_ANONYMOUS_KEYS", 2)
    worker, made, talk = Ingest(local.open(), spools), list[str](), [user("q")]
    made.append(feed.exchange(talk, "a0"))
    for number in range(5):
        feed.exchange([user(f"somebody else {number}")], "a")
    assert worker.flush() == 12
    made.append(feed.exchange([*talk, said("a0"), user("r")], "a1"))
    assert worker.flush() == 0, "too much is remembered: what is on its way comes first"
    worker.run_once()
    worker.run_once()
    found = steps_of(local)
    assert [found[step]["parent_id"] for step in made] == [None, made[0]]
    assert not worker._rounds.crowded
