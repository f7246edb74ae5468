"""Which requests are the same call tried again, and whose answer was used: through real spools and a real ingest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from stepwell.exchange import End, Request, Response, request_entry, response_entry
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._link.attempts import Attempt, Calls, Finding
from stepwell.warehouse._link.link import INFERRED
from stepwell.warehouse._tables.ledger import LedgerTable


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class Agent:
    """Calls of one agent: what it asks, which retry it says that is, and how the answer ends."""

    def __init__(self, feed: Any, reply: Callable[..., bytes], trajectory: str | None = "t") -> None:
        self._feed, self._reply, self._trajectory = feed, reply, trajectory
        self._number = itertools.count()

    def ask(self, *talk: dict[str, Any], retry: int | None = None, **more: Any) -> str:
        """A forwarded request; the exchange's id."""
        id_ = f"x{next(self._number)}"
        body = orjson.dumps({"model": "m", "messages": list(talk), **more})
        headers = [("x-stainless-retry-count", str(retry))] if retry is not None else []
        asked = Request("POST", "https://llm.example/v1/chat/completions", headers, body, 0)
        self._feed.put(request_entry(id_, asked, dialect="openai.chat", trajectory_id=self._trajectory, engine="vllm"))
        return id_

    def end(self, id_: str, *answers: str, end: End = "complete", status: int | None = 200) -> str:
        """How it ended; the id of its first step. Without an answer: nothing came, or an error."""
        choices = [(answer, [7 + place]) for place, answer in enumerate(answers)]
        body = (
            self._reply(id_, [1, 2, 3], choices)
            if answers
            else b'{"error":{"message":"overloaded"}}'
            if status
            else b""
        )
        body = body if end == "complete" else body[:-60]  # cut before the finish reason
        self._feed.put(response_entry(id_, Response(status, [("content-type", "application/json")], body, end, 0)))
        return f"{id_}.0"

    def call(self, *talk: dict[str, Any], answer: str | None = "a", retry: int | None = None, **more: Any) -> str:
        """An answer, or with None an error 503."""
        id_ = self.ask(*talk, retry=retry, **more)
        return self.end(id_, answer) if answer is not None else self.end(id_, status=503)

    def cut(self, *talk: dict[str, Any], retry: int | None = None) -> str:
        """The client hangs up before the answer has come."""
        return self.end(self.ask(*talk, retry=retry), end="client_disconnect", status=None)


@pytest.fixture
def agent(feed: Any, reply: Callable[..., bytes]) -> Agent:
    return Agent(feed, reply)


@pytest.fixture
def anonymous(feed: Any, reply: Callable[..., bytes]) -> Agent:
    return Agent(feed, reply, None)


Rows = Callable[[], dict[str, dict[str, Any]]]


@pytest.fixture
def steps(warehouse: Warehouse, ingest: Callable[[], int]) -> Rows:
    def read() -> dict[str, dict[str, Any]]:
        ingest()
        columns = "step_id, call_id, trajectory_id, parent_id, trainable, untrainable_reason, superseded_by"
        return {row["step_id"]: row for row in warehouse.query(f"SELECT {columns} FROM steps").to_pylist()}

    return read


def test_a_retry_after_a_cut_is_another_attempt_of_the_call(agent: Agent, steps: Rows) -> None:
    first = agent.cut(user("q"), retry=0)
    second = agent.call(user("q"), retry=1)
    third = agent.call(user("q"), said("a"), user("r"), answer="b", retry=0)
    found = steps()
    assert [found[step]["call_id"] for step in (first, second, third)] == ["x0", "x0", "x2"]
    assert [found[step]["superseded_by"] for step in (first, second, third)] == [second, None, None]
    assert [found[step]["trainable"] for step in (first, second, third)] == [False, True, True]
    assert found[first]["untrainable_reason"] == f"the client used another attempt of this call: {second}"
    assert found[third]["parent_id"] == second


def test_without_a_header_a_failed_first_attempt_makes_it_a_retry(agent: Agent, steps: Rows) -> None:
    first, second = agent.call(user("q"), answer=None), agent.call(user("q"))
    found = steps()
    assert found[second]["call_id"] == found[first]["call_id"] == "x0"
    assert found[first]["superseded_by"] == second


def test_the_same_body_again_is_a_sibling(agent: Agent, steps: Rows) -> None:
    """Best of n: nothing failed, and no library says that it tries again."""
    samples = [agent.call(user("q"), answer=str(n), retry=0) for n in range(3)]
    found = steps()
    assert len({found[step]["call_id"] for step in samples}) == 3
    assert [found[step]["superseded_by"] for step in samples] == [None] * 3
    assert all(found[step]["trainable"] for step in samples)


def test_samples_that_fail_side_by_side_are_no_retries_of_each_other(agent: Agent, steps: Rows) -> None:
    asked = [agent.ask(user("q")) for _ in range(3)]
    lost = [agent.end(id_, status=503) for id_ in asked]
    again = [agent.call(user("q"), answer=str(n), retry=1) for n in range(3)]
    found = steps()
    assert len({found[step]["call_id"] for step in lost}) == 3
    assert {found[step]["call_id"] for step in again} == {found[step]["call_id"] for step in lost}
    assert all(found[step]["superseded_by"] in again for step in lost)


def test_two_retries_of_one_number_are_of_two_calls(agent: Agent, steps: Rows) -> None:
    """The first attempts of both went unseen: another proxy, or before the recording began."""
    one, other = agent.call(user("q"), answer="a", retry=1), agent.call(user("q"), answer="b", retry=1)
    again = agent.call(user("q"), answer="c", retry=2)
    found = steps()
    assert found[one]["call_id"] != found[other]["call_id"] == found[again]["call_id"]
    assert (found[one]["superseded_by"], found[other]["superseded_by"]) == (None, again)


def test_another_dialect_is_another_call(agent: Agent, feed: Any, steps: Rows) -> None:
    """The same question to chat, which fails, and to Responses: an agent that tries both, or compares them."""
    first = agent.call(user("q"), answer=None)
    asked = orjson.dumps({"model": "m", "input": [user("q")]})
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    answer = orjson.dumps({"id": "r", "object": "response", "status": "completed", "output": [item]})
    ends: list[tuple[str, End]] = [("cut", "upstream_error"), ("whole", "complete")]
    for name, end in ends:
        request = Request("POST", "https://llm.example/v1/responses", [], asked, 0)
        feed.put(request_entry(name, request, dialect="openai.responses", trajectory_id="t"))
        body = answer if end == "complete" else b""
        feed.put(response_entry(name, Response(200, [("content-type", "application/json")], body, end, 0)))
    found = steps()
    assert found[first]["superseded_by"] is None
    assert [found[step]["call_id"] for step in ("cut.0", "whole.0")] == ["cut", "cut"]
    assert found["cut.0"]["superseded_by"] == "whole.0"


@pytest.mark.parametrize("other", [{"model": "n"}, {"tools": [{"type": "function", "function": {"name": "f"}}]}])
def test_another_model_or_other_tools_are_another_call(agent: Agent, steps: Rows, other: dict[str, Any]) -> None:
    first, second = agent.call(user("q"), answer=None), agent.call(user("q"), **other)
    found = steps()
    assert found[second]["call_id"] != found[first]["call_id"]


def test_an_answer_cut_at_its_length_is_no_failure(agent: Agent, feed: Any, reply: Any, steps: Rows) -> None:
    id_ = agent.ask(user("q"))
    body = reply(id_, [1], [("a", [2])]).replace(b'"stop"', b'"length"')
    first = feed.answer(id_, body)
    second = agent.call(user("q"), answer="b")
    found = steps()
    assert found[second]["call_id"] != found[first]["call_id"]


@pytest.mark.parametrize("echoed", [0, 1])
@pytest.mark.parametrize("rounds", [False, True])
def test_the_attempt_that_was_used_is_the_one_repeated_later(
    agent: Agent, steps: Rows, echoed: int, rounds: bool
) -> None:
    """The first was slow and its answer came after all: which one the client took shows in what it sends next."""
    talk = [user("q")]
    attempts = [agent.call(*talk, answer="slow", retry=0), agent.call(*talk, answer="quick", retry=1)]
    if rounds:
        assert steps()[attempts[0]]["superseded_by"] == attempts[1], "until one is repeated, the last one answered"
    child = agent.call(*talk, said(("slow", "quick")[echoed]), user("r"), answer="b")
    found = steps()
    assert found[child]["parent_id"] == attempts[echoed]
    assert found[attempts[echoed]]["superseded_by"] is None
    assert found[attempts[echoed]]["trainable"]
    assert found[attempts[1 - echoed]]["superseded_by"] == attempts[echoed]
    assert not found[attempts[1 - echoed]]["trainable"]


def test_attempts_that_are_both_repeated_were_both_used(agent: Agent, steps: Rows) -> None:
    talk = [user("q")]
    attempts = [agent.call(*talk, answer=answer, retry=n) for n, answer in enumerate(("slow", "quick"))]
    for answer in ("slow", "quick"):
        agent.call(*talk, said(answer), user("r"), answer="b")
        found = steps()
    assert [found[step]["superseded_by"] for step in attempts] == [None, None]


def test_an_attempt_with_several_choices_stays_or_goes_as_one(agent: Agent, steps: Rows) -> None:
    first = agent.end(agent.ask(user("q"), retry=0), "a", "b")
    second = agent.end(agent.ask(user("q"), retry=1), "c", "d")
    agent.call(user("q"), said("b"), user("r"), answer="e")
    found = steps()
    choices = [first, first.replace(".0", ".1"), second, second.replace(".0", ".1")]
    assert {found[step]["call_id"] for step in choices} == {"x0"}
    assert [found[step]["superseded_by"] for step in choices] == [None, None, choices[1], choices[1]]


def test_anonymous_attempts_are_one_call_in_one_trajectory(anonymous: Agent, steps: Rows) -> None:
    first, second = anonymous.cut(user("q"), retry=0), anonymous.call(user("q"), retry=1)
    sibling = anonymous.call(user("q"), answer="b", retry=0)
    found = steps()
    assert found[first]["trajectory_id"] == found[second]["trajectory_id"] == f"{INFERRED}x0"
    assert found[first]["superseded_by"] == second
    assert found[sibling]["trajectory_id"] == f"{INFERRED}x2", "the same body again is a rollout of its own"


@pytest.mark.parametrize("trajectory", ["t", None])
@pytest.mark.parametrize("retry", [None, 1])
def test_an_attempt_is_known_after_a_restart(
    feed: Any, reply: Any, local: Any, restarted: Callable[[], int], trajectory: str | None, retry: int | None
) -> None:
    agent = Agent(feed, reply, trajectory)
    first = agent.cut(user("q"), retry=0)
    restarted()
    second = agent.call(user("q"), answer="a", retry=retry)
    restarted()
    third = agent.call(user("q"), said("a"), user("r"), answer="b")
    restarted()
    columns = "step_id, call_id, trajectory_id, superseded_by, parent_id"
    found = {row["step_id"]: row for row in local.open().query(f"SELECT {columns} FROM steps").to_pylist()}
    assert found[second]["call_id"] == "x0"
    assert found[first]["superseded_by"] == second
    assert found[third]["parent_id"] == second
    assert len({row["trajectory_id"] for row in found.values()}) == 1


def test_what_was_repeated_before_the_restart_stays_used(
    feed: Any, reply: Any, local: Any, restarted: Callable[[], int]
) -> None:
    """The second attempt's answer comes late: by then the agent has long gone on with the first one's."""
    agent = Agent(feed, reply)
    first = agent.call(user("q"), answer="a", retry=0)
    late = agent.ask(user("q"), retry=1)
    agent.call(user("q"), said("a"), user("r"), answer="b")
    restarted()
    second = agent.end(late, "c")
    restarted()
    found = local.open().query("SELECT step_id, superseded_by FROM steps WHERE superseded_by IS NOT NULL").to_pylist()
    assert found == [{"step_id": second, "superseded_by": first}]


@pytest.mark.parametrize("goes_on", [False, True])
def test_findings_survive_a_round_that_died_between_steps_and_events(
    agent: Agent, local: Any, spools: Any, drained: Any, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    first = agent.call(user("q"), answer=None)
    second = agent.call(user("q"))
    worker = Ingest(local.open(), spools)

    real = LedgerTable.commit

    def commit(self: LedgerTable, *args: Any) -> None:
        if self.spec.name == "events":
            raise KeyboardInterrupt
        real(self, *args)

    monkeypatch.setattr(LedgerTable, "commit", commit)
    with pytest.raises(KeyboardInterrupt):
        worker.run_once()
    monkeypatch.undo()
    third = agent.call(user("q"), said("a"), user("r"), answer="b") if goes_on else None
    drained(Ingest(local.open(), spools))
    rows = local.open().query("SELECT kind, target_id, text FROM events ORDER BY kind").to_pylist()
    superseded = {"kind": "attempt.superseded", "target_id": first, "text": second}
    used = {"kind": "attempt.used", "target_id": second, "text": third}
    assert rows == ([superseded, used] if goes_on else [superseded])


def test_a_dataset_leaves_superseded_attempts_out(agent: Agent, steps: Rows, warehouse: Warehouse) -> None:
    first, second = agent.call(user("q"), answer="slow", retry=0), agent.call(user("q"), answer="quick", retry=1)
    steps()
    warehouse.datasets.create("all", "true")
    assert warehouse.datasets.read("all")["step_id"].to_pylist() == [second]
    read = warehouse.steps(columns=["step_id", "trainable", "untrainable_reason"]).read_all().to_pylist()
    assert {row["step_id"]: row["trainable"] for row in read} == {first: False, second: True}
    counted = warehouse.query("SELECT steps, trainable_steps FROM trajectories").to_pylist()
    assert counted == [{"steps": 2, "trainable_steps": 1}]


def test_findings_are_no_feedback(agent: Agent, steps: Rows, warehouse: Warehouse) -> None:
    agent.call(user("q"), answer=None)
    agent.call(user("q"))
    steps()
    assert warehouse.query("SELECT * FROM feedback").num_rows == 0
    assert warehouse.query("SELECT * FROM events").num_rows == 1


def attempt(id_: str, *, retry: int = 0, failed: bool = False, ended: int = 0) -> Attempt:
    return Attempt(id_, "p", ended, retry, failed)


def add(calls: Calls, one: Attempt, asked: int = 10**6) -> str:
    return calls.add("k", one, f"{one.id}.0", calls.match("k", one, asked)).call_id


def test_a_first_attempt_may_end_after_the_second() -> None:
    """The client gave up on it; the capture saw its end later."""
    calls = Calls()
    assert add(calls, attempt("b", retry=1)) == "b"
    assert add(calls, attempt("a", failed=True)) == "b"
    assert calls.findings(["a.0"]) == [Finding("attempt.superseded", "a.0", "b.0")]
    assert add(calls, attempt("c")) == "c"


def test_nothing_is_known_while_every_attempt_has_failed() -> None:
    calls = Calls()
    for number in range(3):
        assert add(calls, attempt(str(number), failed=True)) == "0"
    assert calls.findings(["0.0", "1.0"]) == []


def test_what_can_be_tried_again_is_bounded() -> None:
    calls = Calls()
    for number in range(2000):
        one = attempt(str(number))
        calls.add(f"k{number}", one, f"{number}.0", None)
        calls.add("many", attempt(f"m{number}"), f"m{number}.0", None)
    assert len(calls.by_key) <= 512
    assert len(calls.by_key["many"]) <= 64
    assert not calls.tried_again
