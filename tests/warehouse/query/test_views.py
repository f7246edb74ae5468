"""What is resolved from the facts: rewards, states, groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.warehouse import Ingest, Warehouse


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def rows(warehouse: Warehouse, ingest: Callable[[], int]) -> Rows:
    """Rows of a query, after everything was taken in."""

    def read(sql: str) -> list[dict[str, Any]]:
        ingest()
        found: list[dict[str, Any]] = warehouse.query(sql).to_pylist()
        return found

    return read


def test_the_last_reward_of_a_name_and_author_counts_and_names_add_up(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", reward=0.25)
    for reward, name, author in [
        (1, None, "x"),
        (2, None, "x"),
        (4, "style", None),
        (8, "style", "y"),
        (16, "style", "y"),
    ]:
        feed.feedback(step_id="s", reward=reward, name=name, author=author)
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": 0.25 + 2 + 4 + 16}]
    feed.feedback(step_id="s", reward=-16, name="style", author="y")
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": 0.25 + 2 + 4 - 16}]
    assert len(rows("SELECT * FROM events")) == 7, "nothing is overwritten"
    assert len(rows("SELECT * FROM feedback")) == 4


def test_only_rewards_are_rewards(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", trajectory_id="t")
    feed.feedback(step_id="s", score=3.0)
    feed.feedback(step_id="s", rating=4, scale=5)
    feed.feedback(trajectory_id="t", label="good")
    assert rows("SELECT step_reward, trajectory_reward FROM steps") == [
        {"step_reward": None, "trajectory_reward": None}
    ]
    kinds = rows("SELECT kind, name, value, text, payload FROM feedback ORDER BY kind")
    assert [(row["kind"], row["name"], row["value"], row["text"]) for row in kinds] == [
        ("label", "label", None, "good"),
        ("rating", "rating", 4.0, None),
        ("score", "score", 3.0, None),
    ]
    assert kinds[1]["payload"] == '{"scale":5.0}'


def test_no_reward_is_not_zero(feed: Any, rows: Rows) -> None:
    feed.step(step_id="none", trajectory_id="t")
    feed.step(step_id="zero", trajectory_id="t", reward=0.0)
    found = rows("SELECT step_id, step_reward, trajectory_reward FROM steps ORDER BY step_id")
    assert [(row["step_reward"], row["trajectory_reward"]) for row in found] == [(None, None), (0.0, None)]


def test_a_reward_by_the_providers_id(feed: Any, rows: Rows) -> None:
    step = feed.exchange([user("q")], id="x")
    feed.feedback(response_id="chat-x", reward=0.5)
    assert rows("SELECT step_id, step_reward FROM steps") == [{"step_id": step, "step_reward": 0.5}]
    feed.feedback(step_id=step, reward=0.75)
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": 0.75}], "what names the step itself counts more"


def test_feedback_may_come_before_its_target(feed: Any, rows: Rows) -> None:
    feed.feedback(trajectory_id="t", reward=2.0)
    feed.feedback(step_id="s", reward=1.0)
    assert rows("SELECT * FROM steps") == []
    feed.step(step_id="s", trajectory_id="t")
    assert rows("SELECT step_reward, trajectory_reward FROM steps") == [{"step_reward": 1.0, "trajectory_reward": 2.0}]


def test_states(feed: Any, rows: Rows) -> None:
    for name in ("open", "done", "failed", "again"):
        feed.trajectory(name)
    feed.trajectory("done", "completed")
    feed.trajectory("failed", "failed", reason="exit code 1")
    feed.trajectory("again", "completed")
    feed.trajectory("again")
    feed.step(trajectory_id="unannounced")
    found = rows("SELECT trajectory_id, state, reason, ended_at IS NULL AS running FROM trajectories")
    assert {row["trajectory_id"]: (row["state"], row["reason"], row["running"]) for row in found} == {
        "open": ("open", None, True),
        "done": ("completed", None, False),
        "failed": ("failed", "exit code 1", False),
        "again": ("open", None, True),
        "unannounced": ("open", None, True),
    }


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_trajectory_is_over_when_everything_before_its_end_arrived(new_feed: Any, rows: Rows, end: str) -> None:
    agent, other = new_feed("agent"), new_feed("other")
    late = other.spool.append([])
    assert late == []
    agent.trajectory("t")
    agent.trajectory("t", end, marks={agent.producer: 1, other.producer: 2})
    assert rows("SELECT state FROM trajectories") == [{"state": "open"}]
    other.step(trajectory_id="t")
    assert rows("SELECT state, steps FROM trajectories") == [{"state": "open", "steps": 1}]
    other.step(trajectory_id="t")
    assert rows("SELECT state, steps FROM trajectories") == [{"state": end, "steps": 2}]


def test_quarantined_records_do_not_keep_a_trajectory_open(feed: Any, rows: Rows) -> None:
    exchange = feed.request([user("q")], "t")
    feed.answer(exchange, b"no json")
    feed.trajectory("t")
    feed.trajectory("t", "completed", marks={feed.producer: 3})
    assert rows("SELECT state, steps FROM trajectories") == [{"state": "incomplete", "steps": 0}]


@pytest.mark.parametrize("end", ["completed", "failed"])
def test_a_trajectory_with_lost_calls_is_incomplete_and_ended(feed: Any, rows: Rows, end: str) -> None:
    for name, lost in [("whole", 0), ("unsaid", None), ("gap", 2)]:
        feed.trajectory(name, group_id="g")
        feed.step(trajectory_id=name)
        feed.trajectory(name, end, lost=lost, reason="exit code 7")
    states = "SELECT trajectory_id, state, reason FROM trajectories"
    assert {row["trajectory_id"]: (row["state"], row["reason"]) for row in rows(states)} == {
        "whole": (end, "exit code 7"),
        "unsaid": (end, "exit code 7"),
        "gap": ("incomplete", "exit code 7"),
    }
    assert rows("SELECT trajectories, ended, steps FROM groups") == [{"trajectories": 3, "ended": 3, "steps": 3}]


def test_a_gap_stays_however_often_a_trajectory_ends(feed: Any, rows: Rows) -> None:
    feed.trajectory("t")
    feed.trajectory("t", "completed", lost=1)
    feed.trajectory("t")
    assert rows("SELECT state FROM trajectories") == [{"state": "open"}]
    feed.trajectory("t", "completed")
    assert rows("SELECT state FROM trajectories") == [{"state": "incomplete"}]


def test_a_gap_is_said_once_everything_else_arrived(new_feed: Any, rows: Rows) -> None:
    agent, other = new_feed("agent"), new_feed("other")
    agent.trajectory("t")
    agent.trajectory("t", "failed", lost=1, marks={other.producer: 1})
    assert rows("SELECT state FROM trajectories") == [{"state": "open"}]
    other.step(trajectory_id="t")
    assert rows("SELECT state FROM trajectories") == [{"state": "incomplete"}]


@pytest.mark.parametrize(("opener", "closer"), [("a", "z"), ("z", "a")])
def test_opened_and_ended_through_two_producers_at_once(new_feed: Any, rows: Rows, opener: str, closer: str) -> None:
    """In one commit nobody can say which came first; an end without a beginning would be nonsense."""
    new_feed(opener).trajectory("t")
    new_feed(closer).trajectory("t", "completed")
    assert rows("SELECT state FROM trajectories") == [{"state": "completed"}]


def test_what_a_trajectory_sums_up(feed: Any, rows: Rows) -> None:
    feed.trajectory("t", prompt_id="p", group_id="g", policy_version=3)
    feed.exchange([user("q")], "a", "t", ids=([1], [2, 3]))
    feed.exchange([user("q"), {"role": "assistant", "content": "a"}, user("r")], "b", "t", ids=([1, 2, 3, 4], [5]))
    feed.step(trajectory_id="t", trainable=False, policy_version=5)
    feed.feedback(trajectory_id="t", reward=1.5)
    [row] = rows("SELECT * FROM trajectories")
    expected = {
        "trajectory_id": "t",
        "prompt_id": "p",
        "group_id": "g",
        "split": "train",
        "state": "open",
        "steps": 3,
        "trainable_steps": 2,
        "turns": 2,
        "response_tokens": 3,
        "trajectory_reward": 1.5,
        "policy_version_min": 3,
        "policy_version_max": 5,
    }
    assert expected.items() <= row.items()


def test_groups(feed: Any, rows: Rows) -> None:
    for name, reward, state in [("a", 1.0, "completed"), ("b", 3.0, "failed"), ("c", None, "open")]:
        feed.trajectory(name, group_id="g", prompt_id="p", split="eval")
        feed.step(trajectory_id=name)
        if state != "open":
            feed.trajectory(name, state)
        if reward is not None:
            feed.feedback(trajectory_id=name, reward=reward)
    feed.step(trajectory_id="alone")
    assert rows("SELECT * FROM groups") == [
        {
            "group_id": "g",
            "prompt_id": "p",
            "split": "eval",
            "trajectories": 3,
            "ended": 2,
            "steps": 3,
            "reward_mean": 2.0,
            "reward_std": 1.0,
            "rewarded": 2,
            "policy_version_min": None,
            "policy_version_max": None,
            "ready": False,
        }
    ]


def test_an_opening_that_comes_late_still_says_what_the_steps_are(
    new_feed: Any, warehouse: Warehouse, spools: Path
) -> None:
    """An eval step taken for one to train on would be the worst of it."""
    worker = Ingest(warehouse, spools)
    new_feed("proxy").exchange([user("q")], "a", "t")
    worker.run_once()
    names = ["prompt_id", "group_id", "split", "policy_version"]
    assert warehouse.steps(columns=names).read_all().to_pylist() == [
        dict(zip(names, (None, None, "train", None), strict=True))
    ]
    new_feed("gateway").trajectory("t", prompt_id="p", group_id="g", split="eval", policy_version=4)
    worker.run_once()
    expected = [{"prompt_id": "p", "group_id": "g", "split": "eval", "policy_version": 4}]
    assert warehouse.query(f"SELECT {', '.join(names)} FROM steps").to_pylist() == expected
    assert warehouse.steps(columns=names).read_all().to_pylist() == expected
    assert warehouse.query("SELECT split, policy_version_min FROM trajectories").to_pylist() == [
        {"split": "eval", "policy_version_min": 4}
    ]


def test_a_retraction_leaves_nothing_of_what_was_said(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", reward=0.5)
    feed.feedback(step_id="s", reward=2.0, name="style", author="x")
    feed.feedback(step_id="s", reward=4.0, name="style", author="y")
    feed.feedback(step_id="s", retract="reward", name="style", author="x", comment="misread")
    assert rows("SELECT step_reward, step_rewards FROM steps") == [
        {"step_reward": 4.5, "step_rewards": [("reward", 0.5), ("style", 4.0)]}
    ]
    feed.feedback(step_id="s", retract="reward")
    feed.feedback(step_id="s", retract="reward", name="style", author="y")
    assert rows("SELECT step_reward, step_rewards FROM steps") == [{"step_reward": None, "step_rewards": None}]
    assert rows("SELECT * FROM feedback") == []
    assert len(rows("SELECT * FROM events")) == 6, "the facts stay"
    feed.feedback(step_id="s", reward=1.0, name="style", author="x")
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": 1.0}]


def test_a_retraction_is_of_one_kind_and_target(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", trajectory_id="t", reward=1.0)
    feed.feedback(trajectory_id="t", reward=2.0)
    feed.feedback(step_id="s", score=3.0, name="reward")
    feed.feedback(step_id="s", retract="score", name="reward", metadata={"retract": "no"})
    feed.feedback(step_id="s", label="kept", metadata={"retract": "label"})
    assert rows("SELECT step_reward, trajectory_reward, labels FROM steps") == [
        {"step_reward": 1.0, "trajectory_reward": 2.0, "labels": ["kept"]}
    ]
    assert rows("SELECT * FROM feedback WHERE kind = 'score'") == []


def test_what_is_undone_was_never_said(feed: Any, rows: Rows) -> None:
    """By the event's id: whatever was said before, after or by others stands."""
    feed.step(step_id="s", trajectory_id="t")
    feed.feedback(step_id="s", label="first", author="x")
    feed.feedback(step_id="s", label="second", author="x", feedback_id="f2")
    feed.feedback(step_id="s", label="another", author="y", feedback_id="f3")
    feed.feedback(step_id="s", undo="f2", author="z")
    labels = "SELECT labels FROM steps"
    assert rows(labels) == [{"labels": ["another", "first"]}]
    feed.feedback(step_id="s", label="third", author="x")
    feed.feedback(step_id="s", undo="f2")
    assert rows(labels) == [{"labels": ["another", "third"]}]
    feed.feedback(trajectory_id="t", undo="f3")
    assert rows(labels) == [{"labels": ["another", "third"]}], "the event is about something else"
    feed.feedback(step_id="s", undo="f4")
    feed.feedback(step_id="s", label="late", author="w", feedback_id="f4")
    assert rows(labels) == [{"labels": ["another", "third"]}], "undone before it came"
    assert rows("SELECT text FROM feedback ORDER BY text") == [{"text": "another"}, {"text": "third"}]
    assert len(rows("SELECT * FROM events")) == 9, "the facts stay"


def test_a_retraction_can_be_undone(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", reward=0.5)
    feed.feedback(step_id="s", retract="reward", feedback_id="f")
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": None}]
    feed.feedback(step_id="s", undo="f")
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": 0.5}]


def test_a_step_is_kept_out_of_training_as_long_as_anybody_says_so(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", trajectory_id="t", prompt_ids=[1], response_ids=[2])
    feed.step(step_id="other", trajectory_id="t", prompt_ids=[1], response_ids=[3])
    sql = "SELECT trainable, untrainable_reason AS why FROM steps WHERE step_id = 's'"
    assert rows(sql) == [{"trainable": True, "why": None}]
    feed.feedback(step_id="s", trainable=False, author="x", comment="leaks the answer")
    feed.feedback(step_id="s", trainable=False, author="y")
    why = "set not trainable by x: leaks the answer"
    assert rows(sql) == [{"trainable": False, "why": why}]
    assert rows("SELECT trainable_steps AS n FROM trajectories") == [{"n": 1}]
    feed.feedback(step_id="s", trainable=True, author="y")
    assert rows(sql) == [{"trainable": False, "why": why}]
    feed.feedback(step_id="s", trainable=True, author="x", feedback_id="f")
    assert rows(sql) == [{"trainable": True, "why": None}]
    feed.feedback(step_id="s", undo="f")
    assert rows(sql) == [{"trainable": False, "why": why}]
    feed.feedback(step_id="s", retract="trainable", author="x")
    assert rows(sql) == [{"trainable": True, "why": None}]
    assert rows("SELECT trainable_steps AS n FROM trajectories") == [{"n": 2}]


def test_nobody_makes_a_step_trainable_that_is_not(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", prompt_ids=[1], response_ids=[2], trainable=False, untrainable_reason="a probe")
    feed.feedback(step_id="s", trainable=True)
    assert rows("SELECT trainable, untrainable_reason AS why FROM steps") == [{"trainable": False, "why": "a probe"}]


def test_rewards_by_name_and_level(feed: Any, rows: Rows) -> None:
    feed.step(step_id="s", trajectory_id="t", reward=1.0)
    for reward, name, author in [(0.1, "b", "x"), (0.2, "b", "y"), (0.7, "a", None)]:
        feed.feedback(trajectory_id="t", reward=reward, name=name, author=author)
    expected = {"trajectory_reward": 0.7 + (0.1 + 0.2), "trajectory_rewards": [("a", 0.7), ("b", 0.1 + 0.2)]}
    assert rows("SELECT trajectory_reward, trajectory_rewards FROM trajectories") == [expected]
    assert rows("SELECT trajectory_reward, trajectory_rewards FROM steps") == [expected]
    assert rows("SELECT step_rewards FROM steps") == [{"step_rewards": [("reward", 1.0)]}]
    assert rows("SELECT trajectory_rewards['b'] AS b FROM trajectories WHERE trajectory_rewards['a'] > 0.5") == [
        {"b": 0.1 + 0.2}
    ]


def test_labels_in_force(feed: Any, rows: Rows) -> None:
    step = feed.exchange([user("q")], "a", "t", id="x")
    feed.exchange([user("q")], "a", "u", id="y")
    feed.feedback(step_id=step, label="good", name="quality")
    feed.feedback(step_id=step, label="fine", name="quality")
    feed.feedback(step_id=step, label="short", author="x")
    feed.feedback(step_id=step, label="short", author="y")
    feed.feedback(response_id="chat-x", label="checked")
    feed.feedback(trajectory_id="t", label="solved")
    labels = "SELECT labels, trajectory_labels FROM steps ORDER BY step_id"
    assert rows(labels) == [
        {"labels": ["checked", "fine", "short"], "trajectory_labels": ["solved"]},
        {"labels": [], "trajectory_labels": []},
    ]
    assert rows("SELECT labels FROM trajectories ORDER BY trajectory_id") == [{"labels": ["solved"]}, {"labels": []}]
    feed.feedback(step_id=step, retract="label", name="quality")
    assert rows(labels)[0]["labels"] == ["checked", "short"]


def test_side_calls_get_no_credit_of_their_trajectory(feed: Any, rows: Rows) -> None:
    for name in ("main", "title", "summary"):
        feed.step(step_id=name, trajectory_id="t", metadata={"tags": ["side"]} if name == "title" else None, reward=1.0)
    feed.feedback(trajectory_id="t", reward=2.0)
    feed.feedback(step_id="summary", label="side", name="kind")
    credit = "SELECT step_id, side, step_reward, trajectory_reward, trajectory_rewards FROM steps ORDER BY step_id"
    found = {row["step_id"]: tuple(row.values())[1:] for row in rows(credit)}
    assert found == {
        "main": (False, 1.0, 2.0, [("reward", 2.0)]),
        "summary": (True, 1.0, None, None),
        "title": (True, 1.0, None, None),
    }
    feed.feedback(step_id="summary", retract="label", name="kind")
    assert rows("SELECT trajectory_reward FROM steps WHERE step_id = 'summary'") == [{"trajectory_reward": 2.0}]
    assert rows(
        "SELECT s.step_id, t.trajectory_reward FROM steps s JOIN trajectories t USING (trajectory_id) WHERE side"
    ) == [{"step_id": "title", "trajectory_reward": 2.0}], "who wants it asks for it"


@pytest.mark.parametrize("names", [("zz", "aa"), ("aa", "zz")])
def test_the_later_commit_counts_whatever_the_producers_are_called(
    new_feed: Any, rows: Rows, names: tuple[str, str]
) -> None:
    first, second = (new_feed(name) for name in names)
    first.step(step_id="s")
    first.feedback(step_id="s", reward=1.0)
    rows("SELECT 1")
    second.feedback(step_id="s", reward=2.0)
    assert rows("SELECT step_reward FROM steps") == [{"step_reward": 2.0}]
