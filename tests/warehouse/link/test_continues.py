"""Conversations that the provider remembers: through real spools, the Responses dialect and a real ingest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from stepwell.exchange import Request, Response, request_entry, response_entry
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._link.continues import INCOMPLETE, Answer, Answers
from stepwell.warehouse._link.link import INFERRED
from stepwell.warehouse._link.trajectories import Memories
from stepwell.warehouse._parse.warmed import Warmed


def item(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


class Client:
    """Calls of the Responses API, each answered with a text under the id `resp_<name>`."""

    def __init__(self, feed: Any, trajectory: str | None = None) -> None:
        self._feed, self._trajectory = feed, trajectory
        self._number = itertools.count()

    def call(self, name: str, *said: dict[str, Any], answer: str | None = None, status: int = 200, **more: Any) -> str:
        """The step's id. `previous`: the name of the answer that it continues."""
        previous = more.pop("previous", None)
        more |= {"previous_response_id": f"resp_{previous}"} if previous else {}
        id_ = f"{self._feed.producer[:4]}{name}{next(self._number)}"
        body = orjson.dumps({"model": "m", "input": list(said), **more})
        url = "https://llm.example/v1/responses"
        asked = Request("POST", url, [("content-type", "application/json")], body, 0)
        self._feed.put(request_entry(id_, asked, dialect="openai.responses", trajectory_id=self._trajectory))
        output = [] if answer is None else [item_said(answer)]
        root = {"id": f"resp_{name}", "object": "response", "model": "m", "status": "completed", "output": output}
        body = orjson.dumps(root) if status == 200 else b'{"error":{"message":"gone"}}'
        got = Response(status, [("content-type", "application/json")], body, "complete", 0)
        self._feed.put(response_entry(id_, got))
        return f"{id_}.0"

    def warm(self, name: str, *said: dict[str, Any], **more: Any) -> str:
        """A warm-up, which is no step."""
        return self.call(name, *said, generate=False, **more)


def item_said(text: str) -> dict[str, Any]:
    return {"type": "message", "id": f"msg_{text}", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip


Rows = Callable[[], dict[str, dict[str, Any]]]
COLUMNS = """step_id, trajectory_id, parent_id, turn, messages, tools, trainable, untrainable_reason, continues, extra,
    call_id, superseded_by"""


def rows_of(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    return {row["step_id"]: row for row in warehouse.query(f"SELECT {COLUMNS} FROM steps").to_pylist()}


@pytest.fixture
def steps(warehouse: Warehouse, ingest: Callable[[], int]) -> Rows:
    def read() -> dict[str, dict[str, Any]]:
        ingest()
        assert warehouse.query("SELECT reason FROM quarantine").to_pylist() == []
        return rows_of(warehouse)

    return read


@pytest.fixture(params=[True, False], ids=["restarts", "one ingest"])
def stepwise(request: pytest.FixtureRequest, local: Any, spools: Any, drained: Any) -> Callable[[], None]:
    """Take in what there is: with a new ingest each time, or with the same one."""
    worker = Ingest(local.open(), spools)
    return lambda: drained(Ingest(local.open(), spools) if request.param else worker)


def texts(row: dict[str, Any]) -> list[str]:
    """The prompt, message by message."""
    said = orjson.loads(row["messages"])
    return [f"{m['role']}:{''.join(part.get('text', '') for part in m['content'])}" for m in said]


@pytest.mark.parametrize("trajectory", ["t", None])
def test_a_call_that_names_an_answer_saw_all_before_it(
    feed: Any, local: Any, stepwise: Callable[[], None], trajectory: str | None
) -> None:
    client = Client(feed, trajectory)
    made = [client.call("0", item("q"), answer="a0")]
    stepwise()
    for turn in range(1, 4):
        made.append(client.call(str(turn), item(f"r{turn}"), answer=f"a{turn}", previous=str(turn - 1)))
        stepwise()
    found = rows_of(local.open())
    assert [found[step]["parent_id"] for step in made] == [None, *made[:-1]]
    assert [found[step]["turn"] for step in made] == [0, 1, 2, 3]
    assert len({found[step]["trajectory_id"] for step in made}) == 1
    assert texts(found[made[2]]) == ["user:q", "assistant:a0", "user:r1", "assistant:a1", "user:r2"]
    assert orjson.loads(found[made[2]]["extra"])["inherited_messages"] == 4
    assert not any(INCOMPLETE in (found[step]["untrainable_reason"] or "") for step in made)


def test_two_calls_may_continue_one_answer(feed: Any, steps: Rows) -> None:
    """A fork; and the same words under another answer are no retry."""
    client = Client(feed)
    root = client.call("0", item("q"), answer="a")
    left = client.call("1", item("go on"), answer="b", previous="0")
    right = client.call("2", item("go on"), answer="c", previous="1")
    third = client.call("3", item("go on"), answer="d", previous="0")
    found = steps()
    assert [found[step]["parent_id"] for step in (left, right, third)] == [root, left, root]
    assert len({found[step]["call_id"] for step in (left, right, third)}) == 3


def test_any_old_answer_can_be_continued(feed: Any, local: Any, stepwise: Callable[[], None]) -> None:
    """Also one that memory has let go of."""
    client = Client(feed, "t")
    first = client.call("0", item("q"), answer="a")
    for number in range(1, 300):
        client.call(str(number), item(f"q{number}"), answer="b")
    stepwise()
    last = client.call("x", item("r"), answer="c", previous="0")
    stepwise()
    found = rows_of(local.open())[last]
    assert (found["parent_id"], texts(found)) == (first, ["user:q", "assistant:a", "user:r"])


def test_the_answer_may_be_in_another_trajectory(feed: Any, new_feed: Any, steps: Rows) -> None:
    """It is whose own id says; the prompt is whole all the same. Without an id of its own a step joins that trajectory."""
    first = Client(feed, "one").call("0", item("q"), answer="a")
    named = Client(new_feed("b"), "two").call("1", item("r"), answer="b", previous="0")
    joined = Client(new_feed("c")).call("2", item("s"), answer="c", previous="0")
    found = steps()
    assert [found[step]["trajectory_id"] for step in (named, joined)] == ["two", "one"]
    assert [found[step]["parent_id"] for step in (named, joined)] == [first, first]
    assert texts(found[named]) == ["user:q", "assistant:a", "user:r"]


def test_instructions_hold_for_their_own_call(feed: Any, steps: Rows) -> None:
    client = Client(feed)
    client.call("0", item("q"), answer="a", instructions="be brief")
    client.call("1", item("r"), answer="b", previous="0", instructions="be long")
    last = client.call("2", item("s"), answer="c", previous="1")
    found = steps()
    assert texts(found[last]) == ["user:q", "assistant:a", "user:r", "assistant:b", "user:s"]
    middle = next(row for row in found.values() if row["turn"] == 1)
    assert texts(middle) == ["system:be long", "user:q", "assistant:a", "user:r"]


def test_tools_that_the_conversation_brought_stay(feed: Any, steps: Rows) -> None:
    tool = {"type": "custom", "name": "exec"}
    client = Client(feed)
    client.call("0", {"type": "additional_tools", "role": "developer", "tools": [tool]}, item("q"), answer="a")
    last = client.call("1", item("r"), answer="b", previous="0")
    assert orjson.loads(steps()[last]["tools"]) == [tool]


@pytest.mark.parametrize("name", ["response", "conversation"])
def test_what_is_not_known_leaves_the_prompt_incomplete(feed: Any, steps: Rows, name: str) -> None:
    client = Client(feed)
    more: dict[str, Any] = {"previous": "lost"} if name == "response" else {"conversation": "conv_lost"}
    id_ = "resp_lost" if name == "response" else "conv_lost"
    orphan = client.call("1", item("r"), answer="b", **more)
    child = client.call("2", item("s"), answer="c", previous="1")
    found = steps()
    assert found[orphan]["parent_id"] is None
    assert found[orphan]["untrainable_reason"] == f"{INCOMPLETE}what {name} {id_} holds is not recorded"
    assert found[child]["parent_id"] == orphan
    assert found[child]["untrainable_reason"].startswith(INCOMPLETE)
    assert orphan in found[child]["untrainable_reason"]


def test_an_incomplete_prompt_is_not_taken_for_a_whole_one(feed: Any, steps: Rows) -> None:
    client = Client(feed)
    orphan = client.call("1", item("yes"), answer="ok", previous="lost")
    other = client.call("2", item("yes"), item_said("ok"), item("r"), answer="b")
    found = steps()
    assert found[other]["parent_id"] is None
    assert found[other]["trajectory_id"] != found[orphan]["trajectory_id"]


def test_a_parent_that_arrives_late_is_linked(
    feed: Any, new_feed: Any, local: Any, stepwise: Callable[[], None]
) -> None:
    orphan = Client(feed, "t").call("1", item("r"), answer="b", previous="0")
    stepwise()
    late = Client(new_feed("other"), "t").call("0", item("q"), answer="a")
    stepwise()
    warehouse = local.open()
    assert rows_of(warehouse)[orphan]["parent_id"] == late
    assert warehouse.steps(f"step_id = '{orphan}'", columns=["parent_id"]).read_all().to_pylist() == [
        {"parent_id": late}
    ]
    assert rows_of(warehouse)[orphan]["untrainable_reason"].startswith(INCOMPLETE), "the prompt was stored as it was"
    events = warehouse.query("SELECT event_id, kind, target_id, text FROM events").to_pylist()
    assert [(row["kind"], row["target_id"], row["text"]) for row in events] == [("parent.late", orphan, late)]
    Client(new_feed("third"), "t").call("0", item("q"), answer="a")
    stepwise()
    assert rows_of(warehouse)[orphan]["parent_id"] == late, "the first to arrive"


def test_a_conversation_object_stands_for_the_last_step_of_it(
    feed: Any, local: Any, stepwise: Callable[[], None]
) -> None:
    client = Client(feed)
    made = []
    for turn in range(3):
        made.append(client.call(str(turn), item(f"q{turn}"), answer=f"a{turn}", conversation={"id": "conv_1"}))
        stepwise()
    found = rows_of(local.open())
    assert [found[step]["parent_id"] for step in made] == [None, *made[:-1]]
    assert texts(found[made[2]]) == ["user:q0", "assistant:a0", "user:q1", "assistant:a1", "user:q2"]
    assert {found[step]["continues"] for step in made} == {"conversation:conv_1"}


def test_a_warm_up_is_no_step_and_is_remembered(feed: Any, local: Any, stepwise: Callable[[], None]) -> None:
    client = Client(feed, "t")
    client.warm("w", item("be brief", "developer"), tools=[{"type": "function", "name": "f"}])
    stepwise()
    first = client.call("0", item("q"), answer="a", previous="w")
    stepwise()
    second = client.call("1", item("r"), answer="b", previous="0")
    stepwise()
    warehouse = local.open()
    found = rows_of(warehouse)
    assert set(found) == {first, second}
    assert texts(found[second]) == ["developer:be brief", "user:q", "assistant:a", "user:r"]
    assert [found[step]["parent_id"] for step in (first, second)] == [None, first]
    assert orjson.loads(found[first]["tools"]) == [{"type": "function", "name": "f"}]
    assert not any(INCOMPLETE in (row["untrainable_reason"] or "") for row in found.values())
    assert warehouse.query("SELECT reason FROM quarantine").to_pylist() == []
    assert warehouse.query("SELECT kind, target_id FROM events").to_pylist() == [
        {"kind": "context", "target_id": "resp_w"}
    ]
    assert warehouse.query("SELECT * FROM feedback").num_rows == 0


def test_warm_ups_behind_each_other_lead_to_the_step_before(
    feed: Any, local: Any, stepwise: Callable[[], None]
) -> None:
    client = Client(feed)
    first = client.call("0", item("q"), answer="a")
    client.warm("v", item("x"), previous="0")
    client.warm("w", item("y"), previous="v")
    stepwise()
    last = client.call("1", item("r"), answer="b", previous="w")
    stepwise()
    found = rows_of(local.open())
    assert found[last]["parent_id"] == first
    assert found[last]["trajectory_id"] == found[first]["trajectory_id"]
    assert texts(found[last]) == ["user:q", "assistant:a", "user:x", "user:y", "user:r"]


def test_a_warm_up_that_continues_the_unknown_does_not_hide_it(feed: Any, steps: Rows) -> None:
    client = Client(feed)
    client.warm("w", item("x"), previous="lost")
    last = client.call("1", item("r"), answer="b", previous="w")
    found = steps()[last]
    assert found["untrainable_reason"] == f"{INCOMPLETE}what response resp_lost holds is not recorded"
    assert texts(found) == ["user:x", "user:r"], "what is known is kept"


def test_a_retry_of_a_call_that_continues(feed: Any, steps: Rows) -> None:
    client = Client(feed)
    client.call("0", item("q"), answer="a")
    failed = client.call("1", item("r"), status=503, previous="0")
    again = client.call("2", item("r"), answer="b", previous="0")
    used = client.call("3", item("s"), answer="c", previous="2")
    found = steps()
    assert found[again]["call_id"] == found[failed]["call_id"]
    assert found[failed]["superseded_by"] == again
    assert found[used]["parent_id"] == again


def test_falling_back_to_the_whole_history_is_the_same_conversation(feed: Any, steps: Rows) -> None:
    """A client whose socket broke sends everything again."""
    client = Client(feed, "t")
    client.call("0", item("q"), answer="a")
    failed = client.call("1", item("r"), status=500, previous="0")
    whole = client.call("2", item("q"), item_said("a"), item("r"), answer="b")
    found = steps()
    assert found[whole]["parent_id"] == found[failed]["parent_id"]
    assert found[whole]["call_id"] == found[failed]["call_id"]


def test_what_was_submitted_may_continue_too(feed: Any, steps: Rows) -> None:
    first = feed.step(step_id="a", response_id="r1", trajectory_id="t", messages=[{"role": "user", "content": "q"}])
    second = feed.step(step_id="b", continues="response:r1", messages=[{"role": "user", "content": "r"}])
    found = steps()
    assert (found[second]["parent_id"], found[second]["trajectory_id"]) == (first, "t")
    assert texts(found[second]) == ["user:q", "assistant:a", "user:r"]


def test_an_anonymous_orphan_has_a_trajectory_of_its_own(feed: Any, steps: Rows) -> None:
    client = Client(feed)
    orphans = [client.call(str(n), item("go on"), answer="b", previous=f"lost{n}") for n in range(2)]
    found = steps()
    assert len({found[step]["trajectory_id"] for step in orphans}) == 2
    assert all(found[step]["trajectory_id"].startswith(INFERRED) for step in orphans)


def test_the_parent_may_come_from_another_producer_of_the_same_round(new_feed: Any, steps: Rows) -> None:
    """Producers are read one after the other; none of them is behind the others for that."""
    feeds = [new_feed(name) for name in "abc"]
    made = [Client(feeds[0]).call("0", item("q"), answer="a")]
    for turn in range(1, 6):
        made.append(Client(feeds[turn % 3]).call(str(turn), item("r"), answer="b", previous=str(turn - 1)))
    found = steps()
    assert [found[step]["parent_id"] for step in made] == [None, *made[:-1]]
    assert [len(texts(found[step])) for step in made] == [1, 3, 5, 7, 9, 11]
    assert not any(INCOMPLETE in (found[step]["untrainable_reason"] or "") for step in made)


def test_a_circle_of_warm_ups_ends() -> None:
    answers = Answers()
    for one, other in ("ab", "ba"):
        answers.warm(Warmed(one, None, (b'{"role":"user","content":[]}',), b"null", f"response:{other}"))
    assert answers.before("response:a", Memories(1 << 20)).missing is not None


def test_those_who_wait_for_one_answer_are_bounded() -> None:
    answers = Answers()
    for number in range(100_000):
        answers.wait("response:lost", str(number))
    answers.wait("response:other", "x")
    assert answers.arrived("lost") == [str(number) for number in range(100_000 - 64, 100_000)]
    assert answers.arrived("lost") == []
    assert answers.arrived("other") == ["x"]


def test_what_is_remembered_is_bounded() -> None:
    answers = Answers()
    for number in range(200_500):
        answers.learn(f"response:{number}", Answer(str(number), "t"))
    for number in range(1000):
        answers.warm(Warmed(f"w{number}", None, (), b"null", None))
    assert "response:0" in answers and "response:w0" in answers, "nothing is forgotten in the middle of a round"
    assert answers.crowded
    answers.shrink()
    assert not answers.crowded
    assert "response:0" not in answers and "response:499" not in answers
    assert "response:500" in answers and "response:200499" in answers
    assert "response:w0" not in answers
    assert "response:w999" in answers
