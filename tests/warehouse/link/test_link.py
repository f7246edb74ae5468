"""Which trajectory, which parent: through real spools and a real ingest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from stepwell.sdk.records import Step
from stepwell.spool import Record
from stepwell.warehouse import Warehouse
from stepwell.warehouse._link.link import INFERRED, Linker
from stepwell.warehouse._link.trajectories import Memories
from stepwell.warehouse._parse.records import Parsed, parse_record


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def steps(warehouse: Warehouse, ingest: Callable[[], int]) -> Callable[[], dict[str, dict[str, Any]]]:
    """All steps by id, after everything was taken in."""

    def read() -> dict[str, dict[str, Any]]:
        ingest()
        rows = warehouse.query("SELECT step_id, trajectory_id, parent_id, turn FROM steps").to_pylist()
        return {row["step_id"]: row for row in rows}

    return read


def test_turns_follow_each_other(feed: Any, steps: Any) -> None:
    first = feed.exchange([user("q")], "a", "t")
    second = feed.exchange([user("q"), said("a"), user("r")], "b", "t")
    third = feed.exchange([user("q"), said("a"), user("r"), said("b"), user("s")], "c", "t")
    found = steps()
    assert [found[step]["parent_id"] for step in (first, second, third)] == [None, first, second]
    assert [found[step]["turn"] for step in (first, second, third)] == [0, 1, 2]


def test_what_clients_change_between_turns_does_not_break_the_chain(feed: Any, reply: Any, steps: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1,"b":2}'}}
    exchange = feed.request([user("q")], "t")
    body = reply(exchange, [1], [("", [2])]).replace(
        b'"content":""', b'"reasoning_content":"hm","tool_calls":[%b]' % orjson.dumps(call)
    )
    first = feed.answer(exchange, body)
    resent = {"id": "other", "type": "function", "function": {"name": "f", "arguments": '{ "b": 2, "a": 1 }'}}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        {"role": "assistant", "content": None, "tool_calls": [resent]},
        {"role": "tool", "tool_call_id": "other", "content": "3"},
    ]
    second = feed.exchange(history, "b", "t")
    assert steps()[second]["parent_id"] == first


def test_an_explicit_parent_wins(feed: Any, steps: Any) -> None:
    root = feed.step(trajectory_id="t")
    other = feed.step(trajectory_id="t", messages=[user("elsewhere")])
    child = feed.step(trajectory_id="t", messages=[user("q"), said("a"), user("r")], parent_id=other)
    found = steps()
    assert found[child]["parent_id"] == other
    assert found[child]["turn"] == 1
    assert found[root]["parent_id"] is None


def test_siblings_have_one_parent(feed: Any, reply: Any, steps: Any) -> None:
    """Best-of-n, and the same body sent twice: branches, no chain."""
    exchange = feed.request([user("q")], "t")
    first = feed.answer(exchange, reply(exchange, [1, 2], [("a", [3]), ("b", [4])]))
    second = first.replace(".0", ".1")
    again = feed.exchange([user("q")], "c", "t")
    after = feed.exchange([user("q"), said("b"), user("r")], "d", "t")
    found = steps()
    assert [found[step]["parent_id"] for step in (first, second, again, after)] == [None, None, None, second]


def test_edited_history_branches_where_it_was_edited(feed: Any, steps: Any) -> None:
    first = feed.exchange([user("q")], "a", "t")
    second = feed.exchange([user("q"), said("a"), user("r")], "b", "t")
    edited = feed.exchange([user("q"), said("a"), user("other")], "c", "t")
    rewritten = feed.exchange([user("summary of it all")], "d", "t")
    found = steps()
    assert [found[step]["parent_id"] for step in (second, edited, rewritten)] == [first, first, None]
    assert [found[step]["turn"] for step in (second, edited, rewritten)] == [1, 1, 0]


def test_a_sub_agent_is_a_root_in_the_same_trajectory(feed: Any, steps: Any) -> None:
    main = feed.exchange([{"role": "system", "content": "main"}, user("q")], "delegate", "t")
    sub = feed.exchange([{"role": "system", "content": "sub"}, user("task")], "done", "t")
    back = feed.exchange([{"role": "system", "content": "main"}, user("q"), said("delegate"), user("done")], "a", "t")
    found = steps()
    assert {found[step]["trajectory_id"] for step in (main, sub, back)} == {"t"}
    assert [found[step]["parent_id"] for step in (main, sub, back)] == [None, None, main]


def test_without_text_the_tokens_say_who_the_parent_is(feed: Any, steps: Any) -> None:
    first = feed.step(trajectory_id="t", prompt_ids=[1, 2], response_ids=[3])
    second = feed.step(trajectory_id="t", prompt_ids=[1, 2, 3, 4], response_ids=[5])
    drifted = feed.step(trajectory_id="t", prompt_ids=[1, 2, 9], response_ids=[5])
    third = feed.step(trajectory_id="t", prompt_ids=[1, 2, 3, 4, 5, 6], response_ids=[7])
    found = steps()
    assert [found[step]["parent_id"] for step in (first, second, drifted, third)] == [None, first, None, second]
    assert found[third]["turn"] == 2


def test_token_drift_decides_nothing_about_lineage(feed: Any, steps: Any) -> None:
    first = feed.exchange([user("q")], "a", "t", ids=([1, 2], [3]))
    second = feed.exchange([user("q"), said("a"), user("r")], "b", "t", ids=([1, 2, 99, 98], [5]))
    assert steps()[second]["parent_id"] == first


def test_anonymous_conversations_are_found_again_and_kept_apart(feed: Any, steps: Any) -> None:
    one = feed.exchange([user("first task")], "a")
    two = feed.exchange([user("second task")], "a")
    one_more = feed.exchange([user("first task"), said("a"), user("r")], "b")
    two_more = feed.exchange([user("second task"), said("a"), user("r")], "b")
    found = steps()
    assert found[one]["trajectory_id"].startswith(INFERRED)
    assert found[one_more]["trajectory_id"] == found[one]["trajectory_id"]
    assert found[two_more]["trajectory_id"] == found[two]["trajectory_id"] != found[one]["trajectory_id"]
    assert found[one_more]["parent_id"] == one
    assert found[two_more]["parent_id"] == two


def test_an_anonymous_step_never_joins_a_named_trajectory(feed: Any, steps: Any) -> None:
    named = feed.exchange([user("q")], "a", "t")
    stranger = feed.exchange([user("q"), said("a"), user("r")], "b")
    found = steps()
    assert found[named]["trajectory_id"] == "t"
    assert found[stranger]["trajectory_id"].startswith(INFERRED)
    assert found[stranger]["parent_id"] is None


def test_a_step_without_an_answer_is_nobodys_parent(feed: Any, reply: Any, steps: Any) -> None:
    exchange = feed.request([user("q")], "t")
    failed = feed.answer(exchange, b'{"error":{"message":"overloaded"}}', 503)
    retried = feed.exchange([user("q")], "a", "t")
    after = feed.exchange([user("q"), said("a"), user("r")], "b", "t")
    found = steps()
    assert [found[step]["parent_id"] for step in (failed, retried, after)] == [None, None, retried]


def test_a_trajectory_read_again_from_the_start_is_the_same(feed: Any, linked: Any) -> None:
    """Placing is a function of the steps: no clock and no chance in it."""
    made = [
        Step(step_id=str(n), trajectory_id=None, messages=[user(f"q{k}") for k in range(n % 3 + 1)], response=said("a"))
        for n in range(9)
    ]
    once, twice = (linked(made).select(["trajectory_id", "parent_id", "base_id"]) for _ in range(2))
    assert once.equals(twice)


def test_messages_that_steps_share_are_held_once() -> None:
    """Also where a message in the middle is another one."""
    memories, parsed = Memories(1 << 30), Parsed()
    talk = [user("q"), said("a"), user("r"), said("a"), user("s")]
    for number, messages in enumerate((talk[:1], talk[:3], [*talk[:2], user("other"), *talk[3:]]), 1):
        step = Step(step_id=str(number), trajectory_id="t", messages=messages, response=said("a"))
        body = step.model_dump_json().encode()
        parse_record(Record(number, str(number), "step", None, 0, b"", body), "p", lambda _: None, parsed)
    linker = Linker(memories)
    drafts = [linker.place(draft).draft for draft in parsed.drafts]
    bases = memories.get("t").bases
    assert [base.conversation for base in bases] == [draft.conversation for draft in drafts]
    second, third = bases[1].conversation, bases[2].conversation
    assert [ours is theirs for ours, theirs in zip(second, third, strict=False)] == [True, True, False, True]


def test_what_was_forgotten_is_not_known_any_more() -> None:
    """After a commit that failed: nothing may continue, or be a difference to, what was perhaps never stored."""
    talk = [user("q"), said("a"), user("r")]
    parsed = Parsed()
    for number, messages in enumerate((talk[:1], talk), 1):
        body = Step(step_id=str(number), messages=messages, response=said("a")).model_dump_json().encode()
        parse_record(Record(number, str(number), "step", None, 0, b"", body), "p", lambda _: None, parsed)
    first, second = parsed.drafts
    linker = Linker(Memories(1 << 30))
    linker.place(first)
    assert linker.trajectory_of(second) == f"{INFERRED}1"
    linker.forget()
    assert not linker.knows(first.conversation_key or "")
    placed = linker.place(second)
    assert (placed.trajectory_id, placed.parent_id, placed.delta.base_id) == (f"{INFERRED}2", None, None)
