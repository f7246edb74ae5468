"""Lineage as agents make it: interleaved sub-agents, samples side by side, rewritten and compacted histories, lost thoughts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from stepwell.exchange import Request, Response, request_entry, response_entry
from stepwell.warehouse import Ingest, Warehouse


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


Rows = Callable[[], dict[str, dict[str, Any]]]


def rows_of(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    return {row["step_id"]: row for row in warehouse.query("SELECT * FROM steps").to_pylist()}


def rewritten(row: dict[str, Any]) -> str | None:
    found: str | None = orjson.loads(row["extra"] or "{}").get("rewritten")
    return found


@pytest.fixture
def steps(warehouse: Warehouse, ingest: Callable[[], int]) -> Rows:
    def read() -> dict[str, dict[str, Any]]:
        ingest()
        return rows_of(warehouse)

    return read


@pytest.mark.parametrize("restart", [False, True])
def test_interleaved_sub_agents_are_lineages_of_one_trajectory(
    feed: Any, local: Any, spools: Any, drained: Any, restart: bool
) -> None:
    """Three agents take turns under one session; two of them were even asked the same by the same words."""
    worker = Ingest(local.open(), spools)
    talks = {name: [system(f"you are {name}"), user("go")] for name in ("main", "sub one", "sub two")}
    made: dict[str, list[str]] = {name: [] for name in talks}
    for turn, name in itertools.product(range(3), talks):
        made[name].append(feed.exchange(talks[name], f"done {turn}", "t"))
        talks[name] += [said(f"done {turn}"), user(f"more {turn}")]
        drained(Ingest(local.open(), spools) if restart else worker)
    found = rows_of(local.open())
    for chain in made.values():
        assert [found[step]["parent_id"] for step in chain] == [None, *chain[:-1]]
        assert [found[step]["turn"] for step in chain] == [0, 1, 2]
    assert not any(rewritten(row) for row in found.values())


def test_samples_side_by_side_each_go_on_by_themselves(feed: Any, steps: Rows) -> None:
    roots = [feed.exchange([user("q")], f"a{n}", "t") for n in range(4)]
    leaves = [feed.exchange([user("q"), said(f"a{n}"), user("r")], "b", "t") for n in (2, 0, 3, 1)]
    found = steps()
    assert [found[leaf]["parent_id"] for leaf in leaves] == [roots[n] for n in (2, 0, 3, 1)]
    assert len({found[step]["call_id"] for step in (*roots, *leaves)}) == 8


def test_an_edited_history_is_a_branch_and_says_so(feed: Any, steps: Rows) -> None:
    first = feed.exchange([user("q")], "a", "t")
    second = feed.exchange([user("q"), said("a"), user("r")], "b", "t")
    edited = feed.exchange([user("q"), said("a"), user("r"), said("B!"), user("s")], "c", "t")
    plain = feed.exchange([user("q"), said("a"), user("other")], "d", "t")
    prefilled = feed.exchange([user("q"), said("a"), user("r"), said("It is")], "e", "t")
    found = steps()
    assert [found[step]["parent_id"] for step in (second, edited, plain, prefilled)] == [first] * 4
    assert [rewritten(found[step]) for step in (first, second, edited, plain, prefilled)] == [
        *(None, None, "the history", None, None)
    ]


def test_compaction_is_a_new_root_in_the_same_trajectory(feed: Any, steps: Rows) -> None:
    first = feed.exchange([system("s"), user("q")], "a", "t")
    asked = feed.exchange([system("s"), user("q"), said("a"), user("summarise")], "all of it", "t")
    root = feed.exchange([system("s"), user("so far: all of it. Go on")], "b", "t")
    after = feed.exchange([system("s"), user("so far: all of it. Go on"), said("b"), user("r")], "c", "t")
    found = steps()
    assert [found[step]["parent_id"] for step in (first, asked, root, after)] == [None, first, None, root]
    assert {row["trajectory_id"] for row in found.values()} == {"t"}


@pytest.mark.parametrize("restart", [False, True])
def test_a_system_prompt_that_changes_every_turn_breaks_no_chain(
    feed: Any, local: Any, spools: Any, drained: Any, restart: bool
) -> None:
    """Clients write dates and counters into it. Only inside a named trajectory, and only after an answer repeated."""
    worker = Ingest(local.open(), spools)
    talk, made = [user("q")], []
    for turn in range(3):
        made.append(feed.exchange([system(f"it is {turn} o'clock"), *talk], f"a{turn}", "t"))
        talk += [said(f"a{turn}"), user(f"r{turn}")]
        drained(Ingest(local.open(), spools) if restart else worker)
    found = rows_of(local.open())
    assert [found[step]["parent_id"] for step in made] == [None, *made[:-1]]
    assert [rewritten(found[step]) for step in made] == [None, "the system prompt", "the system prompt"]


def test_a_changed_system_prompt_alone_joins_nothing(feed: Any, steps: Rows) -> None:
    """Another answer, another model, nobody's trajectory: those are other conversations."""
    first = feed.exchange([system("one"), user("q")], "a", "t")
    same_question = feed.exchange([system("two"), user("q")], "b", "t")
    other_answer = feed.exchange([system("three"), user("q"), said("c"), user("r")], "d", "t")
    other_model = feed.exchange([system("three"), user("q"), said("a"), user("r")], "d", "t", model="small")
    anonymous = feed.exchange([system("one"), user("p")], "a")
    stranger = feed.exchange([system("two"), user("p"), said("a"), user("r")], "b")
    found = steps()
    for step in (first, same_question, other_answer, other_model, anonymous, stranger):
        assert found[step]["parent_id"] is None
    assert found[stranger]["trajectory_id"] != found[anonymous]["trajectory_id"]


def test_the_same_system_prompt_goes_before_a_changed_one(feed: Any, steps: Rows) -> None:
    one = feed.exchange([system("one"), user("q")], "a", "t")
    two = feed.exchange([system("two"), user("q")], "a", "t")
    children = [feed.exchange([system(name), user("q"), said("a"), user("r")], "b", "t") for name in ("one", "two")]
    found = steps()
    assert [found[step]["parent_id"] for step in children] == [one, two]


@pytest.mark.parametrize("answer", ["<think>\nlong\n</think>\n\n4", "long\n</think>\n\n4"])
def test_old_thoughts_that_are_cut_off_break_the_tokens_and_not_the_lineage(
    feed: Any, steps: Rows, warehouse: Warehouse, answer: str
) -> None:
    """The template drops the thought: the second prompt agrees with the first up to its answer, and each keeps its own ids."""
    prompt, sampled = list(range(100, 140)), [1, 2, 3, 4]
    later = [*prompt, 4, 5, 6]
    first = feed.exchange([user("q")], answer, "t", ids=(prompt, sampled))
    second = feed.exchange([user("q"), said("4"), user("r")], "5", "t", ids=(later, [9]))
    assert steps()[second]["parent_id"] == first
    whole = {
        row["step_id"]: row
        for row in warehouse.steps(columns=["step_id", "prompt_ids", "response_ids"]).read_all().to_pylist()
    }
    assert (whole[first]["prompt_ids"], whole[first]["response_ids"]) == (prompt, sampled)
    assert (whole[second]["prompt_ids"], whole[second]["response_ids"]) == (later, [9])


def test_rewards_go_to_the_answers_they_name_on_parallel_branches(feed: Any, steps: Rows) -> None:
    root = feed.exchange([user("q")], "a", "t")
    left = feed.exchange([user("q"), said("a"), user("left")], "b", "t")
    right = feed.exchange([user("q"), said("a"), user("right")], "b", "t")
    leaf = feed.exchange([user("q"), said("a"), user("left"), said("b"), user("on")], "c", "t")
    for step, reward in ((root, -0.25), (leaf, 1.0), (right, 0.5)):
        feed.feedback(response_id=f"chat-{step.removesuffix('.0')}", reward=reward)
    found = steps()
    assert [found[step]["step_reward"] for step in (root, left, right, leaf)] == [-0.25, None, 0.5, 1.0]
    assert [found[step]["parent_id"] for step in (root, left, right, leaf)] == [None, root, root, left]


def test_each_step_has_its_own_policy_version(feed: Any, reply: Any, steps: Rows, warehouse: Warehouse) -> None:
    """Weights change in the middle of a rollout: what its calls say counts, not what the last one said."""
    talk: list[dict[str, Any]] = [user("q")]
    for turn, version in enumerate(("7", "9", "8", None)):
        headers = [("x-stepwell-policy-version", version)] if version else []
        body = orjson.dumps({"model": "m", "messages": talk})
        asked = Request("POST", "https://llm.example/v1/chat/completions", headers, body, 0)
        feed.put(request_entry(f"x{turn}", asked, dialect="openai.chat", trajectory_id="t", engine="vllm"))
        answered = Response(200, [], reply(f"x{turn}", [1], [(f"a{turn}", [2])]), "complete", 0)
        feed.put(response_entry(f"x{turn}", answered))
        talk = [*talk, said(f"a{turn}"), user(f"r{turn}")]
    found = steps()
    assert [found[f"x{turn}.0"]["policy_version"] for turn in range(4)] == [7, 9, 8, None]
    columns = "policy_version_min, policy_version_max"
    assert warehouse.query(f"SELECT {columns} FROM trajectories").to_pylist() == [
        {"policy_version_min": 7, "policy_version_max": 9}
    ]
